package v1alpha1

// Annotations about how many machines are replaced, and when.
const (
	// MaxReplacementsAnnotation on a MachineDeployment, or on a MachineSet without one, is
	// how many of its unhealthy Machines are replaced at a time: a number from 1, or a
	// percentage of spec.replicas, rounded down to at least 1.
	MaxReplacementsAnnotation = "mcm.cluster.x-k8s.io/max-replacements"
)
