"""The acting policy behind a server: its gateway, and a server of our own."""
