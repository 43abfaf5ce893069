"""A voice under TensorRT: rules for its graphs, engines built from them, and the runtime that runs the engines."""
