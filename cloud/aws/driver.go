package aws

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/aws/bootdata"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Options configure a Driver. The zero value is EC2 with credentials from
// Secrets only.
type Options struct {
	// Transport is what all calls go through; nil is the SDK's own.
	Transport http.RoundTripper
	// Endpoint is the URL of EC2; empty leaves it to the SDK, which also looks at
	// AWS_ENDPOINT_URL_EC2.
	Endpoint string
	// S3Endpoint is the URL of S3; empty leaves it to AWS_ENDPOINT_URL_S3, and without that
	// each bucket has one of its own.
	S3Endpoint string
	// BalancerEndpoint is the URL of Elastic Load Balancing version 2; empty is Amazon's, or
	// that of AWS_ENDPOINT_URL_ELASTIC_LOAD_BALANCING_V2.
	BalancerEndpoint string
	// IdentityEndpoint is the URL of STS where it is asked for the name of the account; empty is
	// that of the region, or of AWS_ENDPOINT_URL_STS.
	IdentityEndpoint string
	// Ambient lets a Secret without credentials stand for those of the process:
	// its environment, web identity or instance profile.
	Ambient bool
	// TokenFolders are more folders of which Secrets may name files with tokens.
	TokenFolders []string
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Window is how long lookups and terminations wait for others to share a
	// call; its zero value is 100ms after the last and 1s after the first.
	Window driverkit.Window
}

// Driver is the cloud.Driver of EC2.
type Driver struct {
	judge
	options Options
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
	_ cloud.Tagger      = (*Driver)(nil)
	_ cloud.Balancer    = (*Driver)(nil)

	_ cloud.BootDataKeeper = (*Driver)(nil)
)

// NewDriver returns a Driver.
func NewDriver(o Options) *Driver {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Window == (driverkit.Window{}) {
		o.Window = driverkit.Window{Idle: 100 * time.Millisecond, Longest: time.Second}
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
	s.setDefaults()
	problems := s.Problems.Report()
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace,
		Endpoint: s.endpoint(),
		Owner:    strings.Join(append([]string{s.endpoint() + s.PrivateUserData.Place()}, s.ownership...), " "),
		Region:   s.Region, InstanceType: s.MachineType,
		Zone: s.home(), Zones: s.otherZones(), AnyZone: len(s.Subnets) == 0,
		Spec: s,
	}, problems
}

// CheckSecret names the entries that are missing.
func (j judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	_, problems := loginOf(creds, j.files)
	return problems
}

// Open returns an Account. It makes no call: requests are signed one by one.
func (d *Driver) Open(ctx context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	const op = "open account"
	who, problems := loginOf(creds, d.files)
	if err := cloud.Worst(op, problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return nil, err
	}
	connected, err := d.options.connect(ctx, s, who)
	if err != nil {
		return nil, cloud.Errorf(cloud.Denied, op, "NoCredentials", "the configuration of the SDK cannot be used: %w", err)
	}
	return newAccount(d.options, s.Region, connected), nil
}

// PrivateBootData reports whether boot data of VMs of c is kept out of their user data.
func (d *Driver) PrivateBootData(c cloud.Class) (field string, private bool) {
	s, ok := c.Spec.(*spec)
	return "providerSpec." + bootdata.Field, ok && s.PrivateUserData != nil
}

// Interruptible reports whether EC2 may take VMs of c away: those of a spot market,
// and those of a reservation that its owner may reclaim. A spotPrice means spot, an
// empty one too: then the price on demand is the limit.
func (d *Driver) Interruptible(c cloud.Class) bool {
	s, ok := c.Spec.(*spec)
	return ok && slices.Contains([]string{"spot", "interruptible-capacity-reservation"}, s.capacityType())
}
