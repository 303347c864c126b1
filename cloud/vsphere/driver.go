package vsphere

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

const (
	// userDataMax keeps what a VM boots with, encoded, below the megabyte that a
	// host holds of guest information.
	userDataMax = 512 << 10
	// nicsMax is how many interfaces a VM can have.
	nicsMax = 10
)

// nameLimits are those of an inventory name.
var nameLimits = cloud.NameLimits{Max: 80}

// Driver is the cloud.Driver of vCenter.
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
)

// NewDriver returns a Driver that reads the time from now. Its calls go through
// transport; nil is one of its own for each account, which checks certificates
// as the Secret says.
func NewDriver(now func() time.Time, transport http.RoundTripper) *Driver {
	return &Driver{transport: transport, now: now}
}

// judge is the part of the Driver that calls no cloud.
type judge struct{}

// Offline returns a cloud.Driver that judges classes and Secrets, and opens no account.
func Offline() cloud.Driver { return driverkit.Offline{Judge: judge{}} }

// Traits are the constants of vSphere.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, Names: nameLimits, NodeNamed: true, CreateKey: true,
		StaticAddresses: true, Reboots: true, Secret: secretKeys,
	}
}

// Parse decodes and checks a provider spec.
func (judge) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s := decode(in.Spec)
	s.validate()
	problems := s.Problems.Report()
	cluster, role := s.ownership()
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace,
		Owner:  strings.Join([]string{s.Datacenter, s.Folder, cluster, role}, " "),
		Region: s.Region, Zone: s.Zone, Zones: s.zoneNames(),
		Spec: s,
	}, problems
}

// CheckSecret names the entries that are missing.
func (judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	_, problems := readLogin(creds)
	return problems
}

// DecodeProviderID accepts vsphere://<region>/<bios uuid>, which MCM writes, and
// vsphere://<bios uuid>, which stands on the Node. The id is in lower case.
func (judge) DecodeProviderID(providerID string) (id string, ok bool) {
	return decodeProviderID(providerID)
}

// VolumeID returns the handle of a volume of vSphere's CSI driver, or the path
// of one of the in-tree plugin.
func (d *Driver) VolumeID(v cloud.Volume) (id string, ok bool) {
	return driverkit.VolumeHandle(v, csiDriver, inTreePlugin)
}

// Open logs in and returns the Account.
func (d *Driver) Open(ctx context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	who, problems := readLogin(creds)
	if err := cloud.Worst(opLogin, problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	if _, err := driverkit.SpecOf[*spec](opLogin, c); err != nil {
		return nil, err
	}
	s, err := d.connect(ctx, who)
	if err != nil {
		return nil, fail(opLogin, err)
	}
	return newAccount(s), nil
}
