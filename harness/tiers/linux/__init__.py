"""Linux's reports about places where bytes live; also runs on hosts, under Ansible."""
