"""Subscription log-ins: the real tokens stay outside, are renewed there, and only stand-ins are in.

The agent inside finds a file of its own form and asks for a new token when the old one expires, as
it always does. The fence answers in the place of the token endpoint.
"""
