package v1alpha1

// LoadBalancersAnnotation on a Machine or MCMMachine is which load balancers its VM is
// registered with, as JSON: {"places": [...], "registered": true, "leaving": "<time>"}. Without
// registered, places are those that the VM may be registered with. leaving is since when its
// deletion waits for them.
const LoadBalancersAnnotation = "mcm.cluster.x-k8s.io/load-balancers"

// ConditionLoadBalancerRegistered reports whether the VM is registered with the load balancers
// that its class names. It is absent where the class names none.
const ConditionLoadBalancerRegistered = "LoadBalancerRegistered"

// Reasons of that condition, and of a deletion that waits for load balancers.
const (
	ReasonRegistered    = "Registered"
	ReasonRegistering   = "Registering"   // the VM does not run yet, or the load balancer is busy
	ReasonDeregistering = "Deregistering" // the load balancer still sends requests to the VM
)
