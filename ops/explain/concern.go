package explain

import "slices"

// Concern is where the cause lies, so that it is clear who has to look.
type Concern string

// The concerns.
const (
	None        Concern = "None"        // nothing is missing
	Progress    Concern = "Progress"    // the controllers are at work
	Spec        Concern = "Spec"        // a field of the object itself
	ClassField  Concern = "ClassField"  // a field of the MachineClass
	SecretKey   Concern = "SecretKey"   // a Secret or an entry of it
	Credentials Concern = "Credentials" // the cloud refuses them
	Quota       Concern = "Quota"       // the account may not have more
	Capacity    Concern = "Capacity"    // the cloud has no more
	Rate        Concern = "Rate"        // too many calls or replacements at a time
	Cloud       Concern = "Cloud"       // the cloud's API, or the VM in it
	Addresses   Concern = "Addresses"   // IP pools and claims
	APIServer   Concern = "APIServer"   // it does not answer
	Permissions Concern = "Permissions" // it refuses a request
	Boot        Concern = "Boot"        // what runs on the VM before it is used
	Join        Concern = "Join"        // the node does not register
	Health      Concern = "Health"      // the node is unhealthy
	Drain       Concern = "Drain"       // pods and PodDisruptionBudgets
	Volume      Concern = "Volume"      // volumes that are attached
	Hold        Concern = "Hold"        // held by a migration, a hook or a person
	Freeze      Concern = "Freeze"      // too many machines
	Outage      Concern = "Outage"      // nodes were lost together
	Paused      Concern = "Paused"      // by a person
	Order       Concern = "Order"       // another object comes first
	Manager     Concern = "Manager"     // no manager is at work
	Unknown     Concern = "Unknown"     // the reason is of another project
)

// concerns are all that a row of the table may have.
var concerns = []Concern{
	None, Progress, Spec, ClassField, SecretKey, Credentials, Quota, Capacity, Rate, Cloud, Addresses, APIServer,
	Permissions, Boot, Join, Health, Drain, Volume, Hold, Freeze, Outage, Paused, Order, Manager,
}

func (c Concern) valid() bool { return slices.Contains(concerns, c) }
