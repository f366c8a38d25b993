"""Who may do what: logins, roles, origins."""
