package v1alpha1

// MadeFromAnnotation on the data Secret of a MCMConfig is the spec that the data
// was made from, as JSON. Machines boot once: what the spec names later, e.g.
// for an update in place, is not in the data.
const MadeFromAnnotation = "mcm.cluster.x-k8s.io/made-from"
