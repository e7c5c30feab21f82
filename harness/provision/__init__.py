"""Provisioning of hosts: a front to the playbooks for people who do not speak Ansible."""
