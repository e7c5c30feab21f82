"""The conclusions of papers as checks over stored runs: does each hold on this host?"""
