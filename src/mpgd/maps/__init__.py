"""The Thaler map, its invariant law, its Abel coordinate and the tables made of it."""

from mpgd.maps.thaler import ThalerMap as ThalerMap
