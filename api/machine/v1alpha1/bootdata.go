package v1alpha1

// Annotations about boot data that is kept outside of a VM's user data.
const (
	// BootDataAnnotation on a Machine or MCMMachine, value "kept": the cloud may keep boot
	// data of its VM. It is removed when that has been deleted after the node has joined.
	BootDataAnnotation = "mcm.cluster.x-k8s.io/boot-data"
	// BootDataKept is the value of BootDataAnnotation.
	BootDataKept = "kept"
	// AllowPlainBootDataAnnotation on a MachineClass, value "true": its VMs of control planes
	// of Cluster API may get private keys in user data that the cloud shows to others.
	AllowPlainBootDataAnnotation = "mcm.cluster.x-k8s.io/allow-plain-boot-data"
)
