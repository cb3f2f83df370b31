"""The geometry of pictures: where each shape of an SVG goes. Templates draw them."""
