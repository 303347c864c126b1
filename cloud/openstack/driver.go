package openstack

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Options configure a Driver. The zero value takes credentials from Secrets
// only.
type Options struct {
	// Transport is what all calls go through; nil is one of its own for each
	// account, which checks certificates as the Secret says.
	Transport http.RoundTripper
	// Ambient lets a Secret without credentials stand for those of the process:
	// OS_CLOUD with a clouds.yaml, or OS_AUTH_URL and what goes with it.
	Ambient bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Driver is the cloud.Driver of OpenStack.
type Driver struct {
	judge
	transport http.RoundTripper
	now       func() time.Time

	refusals cloud.Refusals
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
	_ cloud.Tagger      = (*Driver)(nil)
	_ cloud.Balancer    = (*Driver)(nil)
)

// NewDriver returns a Driver.
func NewDriver(o Options) *Driver {
	d := &Driver{transport: o.Transport, now: o.Now}
	if d.now == nil {
		d.now = time.Now
	}
	d.judge = judgeOf(o)
	return d
}

// judge is the part of the Driver that calls no cloud.
type judge struct {
	ambient   *environment // nil if it does not count
	elsewhere bool         // the environment that counts is that of another process
}

func judgeOf(o Options) judge {
	if !o.Ambient {
		return judge{}
	}
	return judge{ambient: ownEnvironment()}
}

// Offline returns a cloud.Driver that judges classes and Secrets, and opens no account. With
// Ambient a Secret may lack credentials: those of the manager are not the caller's.
func Offline(o Options) cloud.Driver { return driverkit.Offline{Judge: judge{elsewhere: o.Ambient}} }

// Parse decodes and checks a provider spec.
func (judge) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	c := decode(in.Spec)
	c.validate()
	c.setDefaults()
	problems := c.Problems.Report()
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace,
		Endpoint: c.Spec.Region,
		Owner:    strings.Join(append([]string{c.Spec.Region}, c.ownership...), " "),
		Region:   c.Spec.Region, Zone: c.Spec.AvailabilityZone, AnyZone: true, InstanceType: c.Spec.FlavorName,
		Spec: c,
	}, problems
}

// CheckSecret names the entries that are missing.
func (j judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	if j.elsewhere && nothing(creds) && len(creds[keyCloudsYAML]) == 0 {
		return nil
	}
	return loginOf(creds, j.ambient).problems
}

// Open logs in and returns the Account.
func (d *Driver) Open(ctx context.Context, class cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	who := loginOf(creds, d.ambient)
	if err := cloud.Worst(opLogin, who.problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	c, err := driverkit.SpecOf[*config](opLogin, class)
	if err != nil {
		return nil, err
	}
	s, err := d.connect(who, c.Spec.Region)
	if err != nil {
		return nil, cloud.Errorf(cloud.Denied, opLogin, "NoCredentials", "the credentials cannot be used: %w", err)
	}
	if _, _, err := s.calls.Login.Get(ctx, opLogin); err != nil {
		s.close()
		return nil, err
	}
	return newAccount(d.now, c.Spec.Region, s), nil
}

// account is the cloud.Account of one set of credentials in one region.
type account struct {
	region string
	now    func() time.Time
	*session

	flavors *driverkit.Cache[string, flavor] // by "id " or "name " and that
	ids     *driverkit.Cache[string, string] // of images, networks and groups, by kind and name
	marked  *driverkit.Cache[string, bool]   // servers whose boot volumes are marked, by id

	turns    driverkit.Turns
	attempts *driverkit.Attempts
}

func newAccount(now func() time.Time, region string, s *session) *account {
	return &account{
		region: region, now: now, session: s, attempts: driverkit.NewAttempts(settleTime, now),
		flavors: driverkit.NewCache[string, flavor](driverkit.CacheOptions{Keep: flavorAge, Now: now}),
		ids: driverkit.NewCache[string, string](driverkit.CacheOptions{
			Keep: idAge, Timeout: lookupTimeout, Now: now,
		}),
		marked: driverkit.NewCache[string, bool](driverkit.CacheOptions{Now: now}),
	}
}

// Close ends the session.
func (a *account) Close() error {
	a.close()
	return nil
}
