package example

import (
	"context"
	"net/http"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Driver is the cloud.Driver of the example cloud.
type Driver struct {
	transport http.RoundTripper
	refusals  cloud.Refusals // of credentials, by all accounts
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
)

// NewDriver returns a Driver whose calls go through transport; nil is the usual one.
func NewDriver(transport http.RoundTripper) *Driver { return &Driver{transport: transport} }

// Parse decodes and checks a provider spec.
func (d *Driver) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s := decode(in.Spec)
	s.validate()
	problems := s.Problems.Report()
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace, Endpoint: s.URL,
		Owner: strings.Join(append([]string{s.URL}, s.ownership...), " "),
		Zone:  s.Zone, AnyZone: true, InstanceType: s.Type, Spec: s,
	}, problems
}

// CheckSecret names the entries that are missing.
func (d *Driver) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	_, problems := readSecret(creds)
	return problems
}

// keyEntry is the entry of the Secret with the key.
const keyEntry = "key"

func readSecret(creds cloud.Credentials) (key string, problems []cloud.Problem) {
	s := driverkit.Secret{Credentials: creds}
	key = s.First(keyEntry)
	s.Require(keyEntry, key, "the key of the cloud's API")
	return key, s.Problems
}

// Open logs in and returns the Account.
func (d *Driver) Open(ctx context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	const op = "log in"
	key, problems := readSecret(creds)
	if err := cloud.Worst(op, problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return nil, err
	}
	client := d.connect(s.URL, key, creds)
	if _, _, err := client.session.Login.Get(ctx, op); err != nil {
		return nil, err
	}
	return &account{client}, nil
}

// account is the cloud.Account of one Secret at one address.
type account struct{ client *client }

// Close lets no further call begin.
func (a *account) Close() error {
	a.client.session.Login.Close()
	return nil
}
