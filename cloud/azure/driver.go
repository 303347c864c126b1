package azure

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// EndpointVariable is the variable of the environment from which the manager takes
// Options.Endpoint, for a Resource Manager that is none of Azure's own.
const EndpointVariable = "AZURE_ENDPOINT_URL"

// Options configure a Driver. The zero value is Azure with credentials from Secrets only.
type Options struct {
	// Transport is what all calls go through; nil is http.DefaultTransport.
	Transport http.RoundTripper
	// Endpoint is the URL of a Resource Manager that also gives out tokens; empty leaves both
	// to the cloud that the class names.
	Endpoint string
	// Ambient lets a Secret without credentials stand for the workload identity of the process.
	Ambient bool
	// TokenFolders are more folders of which Secrets may name files with tokens.
	TokenFolders []string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Driver is the cloud.Driver of Azure.
type Driver struct {
	judge

	options  Options
	refusals cloud.Refusals
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
	_ cloud.Tagger      = (*Driver)(nil)
	_ cloud.Interrupter = (*Driver)(nil)
)

// NewDriver returns a Driver.
func NewDriver(o Options) *Driver {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Driver{judge: o.judge(), options: o}
}

// judge is the part of the Driver that calls no cloud.
type judge struct{ files driverkit.TokenFiles }

func (o Options) judge() judge {
	return judge{driverkit.TokenFiles{Folders: o.TokenFolders, Ambient: o.Ambient}}
}

// Offline returns a cloud.Driver that judges classes and Secrets, and opens no account.
func Offline(o Options) cloud.Driver { return driverkit.Offline{Judge: o.judge()} }

// Parse decodes and checks a provider spec.
func (judge) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s := decode(in.Spec)
	s.validate()
	problems := s.Problems.Report()
	endpoint := s.place().api
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace, Endpoint: endpoint,
		Owner:  strings.Join(append([]string{endpoint, strings.ToLower(s.ResourceGroup)}, s.ownership...), " "),
		Region: s.Location, Zone: s.zone, Zones: s.zones, AnyZone: s.zone != "" || len(s.zones) > 0,
		InstanceType: s.Properties.Hardware.Size, Spec: s,
	}, problems
}

// CheckSecret names the entries that are missing.
func (j judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	_, problems := loginOf(creds, j.files)
	return problems
}

// Open logs in and returns an Account.
func (d *Driver) Open(ctx context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	const op = "log in"
	who, problems := loginOf(creds, d.files)
	if err := cloud.Worst(op, problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return nil, err
	}
	client := d.connect(s.place(), who, creds.Fingerprint())
	if _, _, err := client.session.Login.Get(ctx, op); err != nil {
		return nil, err
	}
	return &account{
		client: client, now: d.options.Now,
		sizes: driverkit.NewCache[string, map[string]size](driverkit.CacheOptions{Keep: time.Hour, Now: d.options.Now}),
		plans: driverkit.NewCache[string, *plan](driverkit.CacheOptions{Now: d.options.Now}),
	}, nil
}

// Interruptible reports whether Azure may take VMs of c away.
func (*Driver) Interruptible(c cloud.Class) bool {
	s, ok := c.Spec.(*spec)
	return ok && s.spot()
}

// account is the cloud.Account of a subscription.
type account struct {
	client *client
	now    func() time.Time
	sizes  *driverkit.Cache[string, map[string]size] // of VMs, by location
	plans  *driverkit.Cache[string, *plan]           // of marketplace images, by URN and location
}

// Close ends the login that is under way.
func (a *account) Close() error {
	a.client.session.Login.Close()
	return nil
}

// The parts of the contract that an account keeps.
var (
	_ cloud.Rebooter      = (*account)(nil)
	_ cloud.ConsoleReader = (*account)(nil)
	_ cloud.TagSetter     = (*account)(nil)
	_ cloud.Scoper        = (*account)(nil)
)
