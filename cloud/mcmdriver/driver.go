package mcmdriver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Driver is MCM's driver.Driver. The requests are structs with the exported fields that MCM's
// have: Machine, MachineClass and Secret; MachineClass and Secret to list; PVSpecs for volumes.
// The responses have ProviderID, NodeName and Addresses; MachineList; VolumeIDs.
type Driver[CreateIn, CreateOut, InitIn, InitOut, DeleteIn, DeleteOut, StatusIn, StatusOut, ListIn, ListOut, VolumesIn,
	VolumesOut any] interface {
	CreateMachine(ctx context.Context, in *CreateIn) (*CreateOut, error)
	InitializeMachine(ctx context.Context, in *InitIn) (*InitOut, error)
	DeleteMachine(ctx context.Context, in *DeleteIn) (*DeleteOut, error)
	GetMachineStatus(ctx context.Context, in *StatusIn) (*StatusOut, error)
	ListMachines(ctx context.Context, in *ListIn) (*ListOut, error)
	GetVolumeIDs(ctx context.Context, in *VolumesIn) (*VolumesOut, error)
}

// Traits describe a driver of MCM's and its cloud. Cloud.Name, and either
// ProviderIDPrefix or DecodeProviderID, are required.
type Traits struct {
	// Cloud are the constants of the cloud. Legacy is always set and CreateKey never;
	// a Settle of 0 is a minute. Its Secret may declare the entries that are addresses or only
	// name something; all others count as credentials.
	Cloud cloud.Traits

	// ProviderIDPrefix begins every providerID of the cloud, e.g. "gce:///". The cloud's
	// own id is what follows the last slash.
	ProviderIDPrefix string
	// DecodeProviderID replaces that rule where it does not hold. It returns the cloud's own
	// id, and false for a providerID of another cloud.
	DecodeProviderID func(providerID string) (id string, ok bool)

	// NodeProviderID returns the providerID that the cloud's controller manager writes
	// to the Node of the VM with this providerID; nil where that is not known.
	NodeProviderID func(providerID string) string

	// Secret are the entries of the Secret without which the driver cannot log in.
	Secret []string
	// SecretAny are groups of entries of which the driver takes any, as where a key was renamed: a
	// Secret has to have one of each group. Nil and an empty group ask for nothing.
	SecretAny [][]string

	// FindsByName reports whether GetMachineStatus and DeleteMachine find the VM of a Machine
	// without a providerID by the Machine's name. For drivers that do not, ListMachines is asked, too, before
	// a VM is made, and before it is believed that there was none.
	FindsByName bool

	// Describe returns what a provider spec is about, and what is wrong with it. Nil
	// describes nothing and accepts every JSON object; the driver then judges when a
	// VM is created. It makes no calls.
	Describe func(spec json.RawMessage) (Description, []cloud.Problem)

	// CallTimeout is how long a call of the driver may go on after its caller has given
	// up. Until it ends there is no other call for that machine. 0 is 20 minutes.
	CallTimeout time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Description is what a provider spec is about. Empty fields are unknown.
type Description struct {
	Region, Zone, InstanceType string
	// Owner is equal for specs with which ListMachines returns the same VMs; empty lets
	// each class be listed by itself.
	Owner string
}

// Wrap returns d as a driver of package cloud. It makes no calls. It panics when traits
// lack what is required, or when a request of d does not have the fields of MCM's.
func Wrap[CI, CO, II, IO, DI, DO, SI, SO, LI, LO, VI, VO any](
	d Driver[CI, CO, II, IO, DI, DO, SI, SO, LI, LO, VI, VO], traits Traits,
) cloud.Driver {
	if traits.Cloud.Name == "" || traits.ProviderIDPrefix == "" && traits.DecodeProviderID == nil {
		panic("mcmdriver: Traits need Cloud.Name, and ProviderIDPrefix or DecodeProviderID")
	}
	traits.Cloud.Legacy, traits.Cloud.CreateKey = true, false
	setDefault(&traits.Cloud.Settle, time.Minute)
	setDefault(&traits.CallTimeout, 20*time.Minute)
	if traits.Now == nil {
		traits.Now = time.Now
	}
	return &driver{traits: traits, methods: methods{
		create:     method(d.CreateMachine, machineRequest),
		initialize: method(d.InitializeMachine, machineRequest),
		remove:     method(d.DeleteMachine, machineRequest),
		status:     method(d.GetMachineStatus, machineRequest),
		list:       method(d.ListMachines, classRequest),
		volumes:    method(d.GetVolumeIDs, volumeRequest),
	}}
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

// driver is a driver of MCM's as one of package cloud.
type driver struct {
	traits  Traits
	methods methods
}

var _ cloud.VolumeNamer = &driver{}

// Traits are those that it was wrapped with.
func (d *driver) Traits() cloud.Traits { return d.traits.Cloud }

// Parse describes the spec. It keeps the spec as it was written, for the driver.
func (d *driver) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	c := cloud.Class{Name: in.Name, Namespace: in.Namespace, Owner: in.Namespace + "/" + in.Name}
	in.Spec = bytes.Clone(in.Spec)
	in.Labels, in.Annotations = maps.Clone(in.Labels), maps.Clone(in.Annotations)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(in.Spec, &fields); err != nil || fields == nil {
		c.Spec = cloud.ClassInput{Name: in.Name, Namespace: in.Namespace}
		return c, []cloud.Problem{{
			Severity: cloud.BlocksAll, Field: "providerSpec", Message: "is not a JSON object; write one",
		}}
	}
	c.Spec = in
	if d.traits.Describe == nil {
		return c, nil
	}
	of, problems := d.traits.Describe(bytes.Clone(in.Spec))
	c.Region, c.Zone, c.InstanceType = of.Region, of.Zone, of.InstanceType
	if of.Owner != "" {
		c.Owner = of.Owner
	}
	slices.SortStableFunc(problems, func(a, b cloud.Problem) int { return strings.Compare(a.Field, b.Field) })
	return c, problems
}

// CheckSecret reports the entries that are missing.
func (d *driver) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	var problems []cloud.Problem
	for _, key := range slices.Sorted(slices.Values(d.traits.Secret)) {
		if len(bytes.TrimSpace(creds[key])) == 0 {
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksAll, Field: key, Message: "is missing in the Secret; add it",
			})
		}
	}
	for _, group := range d.traits.SecretAny {
		given := func(key string) bool { return len(bytes.TrimSpace(creds[key])) > 0 }
		if len(group) > 0 && !slices.ContainsFunc(group, given) {
			problems = append(problems, cloud.Problem{
				Severity: cloud.BlocksAll, Field: group[0],
				Message: "is missing in the Secret; add one of " + strings.Join(group, ", "),
			})
		}
	}
	slices.SortStableFunc(problems, func(a, b cloud.Problem) int { return strings.Compare(a.Field, b.Field) })
	return problems
}

// DecodeProviderID returns what follows the last slash of a providerID of this cloud.
func (d *driver) DecodeProviderID(providerID string) (string, bool) {
	if d.traits.DecodeProviderID != nil {
		return d.traits.DecodeProviderID(providerID)
	}
	rest, ok := strings.CutPrefix(providerID, d.traits.ProviderIDPrefix)
	if id := rest[strings.LastIndexByte(rest, '/')+1:]; ok && id != "" {
		return id, true
	}
	return "", false
}

// nodeProviderID is the Node's form of a providerID; empty if it is not known.
func (d *driver) nodeProviderID(providerID string) string {
	if d.traits.NodeProviderID == nil {
		return ""
	}
	return d.traits.NodeProviderID(providerID)
}

// VolumeID asks the driver, which answers without a call to its cloud.
func (d *driver) VolumeID(v cloud.Volume) (string, bool) {
	spec, ok := volumeSpec(v)
	if !ok {
		return "", false
	}
	//nolint:forbidigo // the contract has no context here, since nothing is called
	out, err := d.methods.volumes(context.Background(), request{"PVSpecs": []any{spec}})
	if err != nil || len(out.VolumeIDs) == 0 || out.VolumeIDs[0] == "" {
		return "", false
	}
	return out.VolumeIDs[0], true
}

// Open returns an account with these credentials. It makes no call: the driver logs in
// with each of its own.
func (d *driver) Open(_ context.Context, _ cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	secret := map[string][]byte{}
	for key, value := range creds {
		if key != userDataKey {
			secret[key] = bytes.Clone(value)
		}
	}
	return &account{driver: d, secret: secret, calls: newCalls(d.traits.CallTimeout)}, nil
}

// misfit is the panic about a request that is not like MCM's.
func misfit(in any, missing string) string {
	return fmt.Sprintf("mcmdriver: %T has no field %s as MCM's request has", in, missing)
}
