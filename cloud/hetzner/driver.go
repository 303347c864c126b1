package hetzner

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Options configure a Driver. The zero value calls Hetzner.
type Options struct {
	// Transport is what all calls go through; nil is the usual one.
	Transport http.RoundTripper
	// Endpoint is the address of the API, with its version; empty is Hetzner's.
	Endpoint string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// EndpointVariable is the variable of a process's environment with the address of another API than
// Hetzner's, as MCM's driver and Hetzner's own tools read it.
const EndpointVariable = "HCLOUD_ENDPOINT"

// endpoint is the address of Hetzner's API.
const endpoint = "https://api.hetzner.cloud/v1"

// Driver is the cloud.Driver of Hetzner Cloud.
type Driver struct {
	judge
	options  Options
	refusals cloud.Refusals // of tokens, by all accounts
}

// The parts of the contract that a Driver and its accounts keep.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
	_ cloud.Tagger      = (*Driver)(nil)
	_ cloud.TagSetter   = (*account)(nil)
	_ cloud.Rebooter    = (*account)(nil)
	_ cloud.Scoper      = (*account)(nil)
	_ cloud.Stocker     = (*spec)(nil)
)

// NewDriver returns a Driver.
func NewDriver(o Options) *Driver {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Endpoint = cmp.Or(o.Endpoint, endpoint)
	return &Driver{options: o}
}

// judge is the part of the Driver that calls no cloud.
type judge struct{}

// Offline returns a cloud.Driver that judges classes and Secrets, and opens no account.
func Offline() cloud.Driver { return driverkit.Offline{Judge: judge{}} }

// Parse decodes and checks a provider spec.
func (judge) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s := decode(in.Spec)
	s.validate()
	problems := s.Problems.Report()
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace, Owner: s.owner(), Region: locationOf(s.Zone), Zone: s.Zone, AnyZone: true,
		InstanceType: s.ServerType, Spec: s,
	}, problems
}

// CheckSecret names the entries that are missing.
func (judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	_, problems := readSecret(creds)
	return problems
}

// tokenEntry is the entry of the Secret with the token.
const tokenEntry = "token"

func readSecret(creds cloud.Credentials) (token string, problems []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	token = s.First(tokenEntry)
	s.Require(tokenEntry, token, "an API token of the project with the permission to read and write")
	return token, s.Problems
}

// Open returns the Account. A token is tried with the first call.
func (d *Driver) Open(_ context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	const op = "log in"
	token, problems := readSecret(creds)
	if err := cloud.Worst(op, problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	if _, err := driverkit.SpecOf[*spec](op, c); err != nil {
		return nil, err
	}
	return d.account(token, creds), nil
}

// account is the cloud.Account of one token, which is one project.
type account struct {
	client

	types  *driverkit.Cache[string, serverType] // by name
	ids    *driverkit.Cache[string, int64]      // of images, keys, networks and firewalls, by kind and name
	groups groups
}

// lookupAge is how long what a name stands for is believed.
const lookupAge = 10 * time.Minute

func (d *Driver) account(token string, creds cloud.Credentials) *account {
	cache := driverkit.CacheOptions{Keep: lookupAge, Timeout: time.Minute, Now: d.options.Now}
	return &account{
		client: d.connect(token, creds),
		types:  driverkit.NewCache[string, serverType](cache), ids: driverkit.NewCache[string, int64](cache),
	}
}
