package gcp

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Options are what the driver is made of. Now is required.
type Options struct {
	Now       func() time.Time
	Transport http.RoundTripper                 // nil is the usual one
	Endpoint  string                            // of the API; empty is the one of the environment or the usual one
	ReadFile  func(name string) ([]byte, error) // of the workload's token; nil is driverkit.TokenFiles
}

// Driver is the cloud.Driver of Google Compute Engine.
type Driver struct {
	judge

	options  Options
	refusals cloud.Refusals // of credentials, by all accounts
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
	_ cloud.Interrupter = (*Driver)(nil)
	_ cloud.Tagger      = (*Driver)(nil)
	_ cloud.Balancer    = (*Driver)(nil)
)

// NewDriver returns a Driver.
func NewDriver(o Options) *Driver {
	o.Endpoint = strings.TrimSuffix(cmp.Or(o.Endpoint, os.Getenv(endpointVariable), computeURL), "/")
	if o.ReadFile == nil {
		o.ReadFile = func(name string) ([]byte, error) { return driverkit.TokenFiles{}.Read(federationEntry, name) }
	}
	return &Driver{options: o}
}

// Offline returns the half of the driver that makes no calls.
func Offline() cloud.Driver { return driverkit.Offline{Judge: judge{}} }

// Parse decodes and checks a provider spec.
func (judge) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s := decode(in.Spec)
	s.complete()
	s.validate()
	region := regionOf(s.Zone)
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace, Endpoint: "compute.googleapis.com",
		Owner:  strings.Join(append([]string{region}, s.ownership...), " "),
		Region: region, Zone: s.Zone, Zones: slices.Sorted(slices.Values(s.allZones()[1:])),
		InstanceType: s.MachineType, Spec: s,
	}, s.Problems.Report()
}

// CheckSecret names the entries that are missing or that no account can be opened with.
func (judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	_, problems := readSecret(creds)
	return problems
}

// Interruptible reports whether VMs of the class are preemptible or of the spot market.
func (judge) Interruptible(c cloud.Class) bool {
	s, err := driverkit.SpecOf[*spec]("", c)
	return err == nil && s.interruptible()
}

// UserTags returns the labels of the class.
func (judge) UserTags(c cloud.Class) map[string]string {
	s, err := driverkit.SpecOf[*spec]("", c)
	if err != nil {
		return map[string]string{}
	}
	return codec.UserTags(s.Labels)
}

// Open logs in and returns the Account.
func (d *Driver) Open(ctx context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	who, problems := readSecret(creds)
	if err := cloud.Worst(opLogin, problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	if _, err := driverkit.SpecOf[*spec](opLogin, c); err != nil {
		return nil, err
	}
	client := d.connect(who, creds)
	if _, _, err := client.session.Login.Get(ctx, opLogin); err != nil {
		return nil, err
	}
	const believed = time.Minute // then it is asked for again
	moments := driverkit.CacheOptions{Keep: believed, Now: d.options.Now}
	return &account{
		client: client, going: driverkit.NewCache[place, bool](moments), moves: driverkit.NewCache[groupPlace, bool](moments),
	}, nil
}

// account is the cloud.Account of one Secret.
type account struct {
	client *client
	going  *driverkit.Cache[place, bool]      // instances whose deletion was accepted a moment ago
	moves  *driverkit.Cache[groupPlace, bool] // and those that were asked to join a group, or if false to leave it
}

// The parts of the contract that an account keeps.
var (
	_ cloud.Account       = (*account)(nil)
	_ cloud.Rebooter      = (*account)(nil)
	_ cloud.ConsoleReader = (*account)(nil)
	_ cloud.TagSetter     = (*account)(nil)
	_ cloud.Registrar     = (*account)(nil)
	_ cloud.Scoper        = (*account)(nil)
)

// Close lets no further call begin.
func (a *account) Close() error {
	a.client.session.Login.Close()
	return nil
}
