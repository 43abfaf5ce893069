"""A voice under TensorRT: rules for its graphs, engines built from them, the runtime that runs these. Knows nothing of
training."""
