"""A voice outside of Sonorant: as one graph, for sherpa-onnx, and as a page that speaks in a browser."""
