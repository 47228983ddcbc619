"""Engines that sample from local weights with torch; only the policy child process imports them."""
