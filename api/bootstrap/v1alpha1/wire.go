package v1alpha1

// MadeFromAnnotation on the data Secret of an MCMConfig is the spec that the data
// was created from, as JSON. A machine boots once: later changes of the spec, for
// example for an in-place update, are not in the data.
const MadeFromAnnotation = "mcm.cluster.x-k8s.io/made-from"
