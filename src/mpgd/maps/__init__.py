"""Interval maps with a neutral fixed point, their invariant laws and Abel coordinates."""

from mpgd.maps.lsv import LSVMap as LSVMap
from mpgd.maps.thaler import ThalerMap as ThalerMap
