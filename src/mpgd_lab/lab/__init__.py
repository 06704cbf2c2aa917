"""The lab: a page on this machine on which the paper's parameters are sliders.

    settings -> simulation -> landscapes, descent, wells -> server -> page

The server computes with the library and sends numbers; the page only draws them.
"""

from mpgd_lab.lab.server import serve as serve
