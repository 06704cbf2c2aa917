"""The lab: a page on this machine on which the paper's parameters are sliders.

    settings -> simulation -> landscapes, descent, wells -> static_page -> server -> page

The server computes with the library and sends numbers; the page only draws them. `static_page`
writes page and numbers to a folder instead.
"""

from mpgd_lab.lab.server import serve as serve
from mpgd_lab.lab.static_page import export as export
