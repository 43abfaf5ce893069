"""Sonorant: recordings to a text-to-speech voice."""

from sonorant.network import spare_loopback

spare_loopback()
