package sim

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Names that belong to the simulated cloud.
const (
	ProviderName     = "sim"
	VolumeDriver     = "disk.csi.sim" // of its CSI driver
	providerIDScheme = "sim:///"
)

// settleTime is how long the driver lets the cloud miss a new VM. A Cloud with
// longer Settings.Settle breaks what the driver promises.
const settleTime = 2 * time.Second

// nameLimits are those of a node's name.
var nameLimits = cloud.NameLimits{Max: 253}

// Driver is the cloud.Driver of simulated clouds.
type Driver struct {
	judge
	transport http.RoundTripper
	window    *driverkit.Window // of lookups; nil does not share them
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
	_ cloud.Tagger      = (*Driver)(nil)
	_ cloud.Balancer    = (*Driver)(nil)
)

// NewDriver returns a Driver whose calls go through transport, each lookup in a
// call of its own. A nil transport is one of its own that keeps connections open,
// and lookups are batched.
func NewDriver(transport http.RoundTripper) *Driver {
	if transport != nil {
		return &Driver{transport: transport}
	}
	const connections = 100
	d := &Driver{transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConns: connections, MaxIdleConnsPerHost: connections,
		IdleConnTimeout: time.Minute, ResponseHeaderTimeout: time.Minute,
	}}
	return d.Batched(driverkit.Window{Idle: 100 * time.Millisecond, Longest: 500 * time.Millisecond})
}

// Batched returns a Driver like d whose lookups wait for others to share a call.
func (d *Driver) Batched(w driverkit.Window) *Driver {
	return &Driver{transport: d.transport, window: &w}
}

// judge is the part of the Driver that calls no cloud.
type judge struct{}

// Offline returns a cloud.Driver that judges classes and Secrets, and opens no account.
func Offline() cloud.Driver { return driverkit.Offline{Judge: judge{}} }

// Traits are the constants of simulated clouds.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: UserDataMax, Names: nameLimits, Settle: settleTime,
		CreateKey: true, SharedNames: true, NodeNamed: true, StaticAddresses: true, Reboots: true, Consoles: true,
		Secret: cloud.SecretKeys{Credential: []string{secretKey}, Public: []string{accountKey}},
	}
}

// Parse decodes and checks a provider spec.
func (judge) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s := decode(in.Spec)
	s.validate()
	problems := s.Problems.Report()
	endpoint := strings.TrimRight(s.Endpoint, "/")
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace,
		Endpoint: endpoint,
		Owner:    strings.Join(append([]string{endpoint, s.Region}, s.ownership...), " "),
		Region:   s.Region, Zone: s.Zone, Zones: s.Zones, AnyZone: true, InstanceType: s.InstanceType,
		Spec: s,
	}, problems
}

// CheckSecret names the entries that are missing.
func (judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	return checkSecret(creds)
}

// DecodeProviderID accepts sim:///<region>/<id>, which MCM would write, and
// sim:///<zone>/<id>, which stands on the Node.
func (judge) DecodeProviderID(providerID string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(providerID, providerIDScheme)
	if !ok {
		return "", false
	}
	place, id, ok := strings.Cut(rest, "/")
	if !ok || place == "" || !strings.HasPrefix(id, KindVM+"-") || strings.Contains(id, "/") {
		return "", false
	}
	return id, true
}

// ProviderID returns the providerID of a VM: in MCM's form for a region, in the
// form of its Node for a zone.
func ProviderID(place, id string) string { return providerIDScheme + place + "/" + id }

// VolumeID returns the id of a disk that was made by the cloud's CSI driver.
func (d *Driver) VolumeID(v cloud.Volume) (id string, ok bool) {
	if v.Driver != VolumeDriver {
		return "", false
	}
	return v.Handle, v.Handle != ""
}

// Open returns an Account. It makes no call: the cloud has no sessions.
func (d *Driver) Open(_ context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	if err := cloud.Worst("open account", checkSecret(creds), cloud.BlocksAll); err != nil {
		return nil, err
	}
	s, ok := c.Spec.(*spec)
	if !ok {
		return nil, cloud.Errorf(cloud.Invalid, "open account", "InvalidClass", "the class was not parsed by this driver")
	}
	if err := cloud.Worst("open account", s.Problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	a := &account{client: client{endpoint: c.Endpoint, who: login(creds), transport: d.transport}}
	if d.window != nil {
		a.batched(*d.window)
	}
	return a, nil
}

// Interruptible reports whether VMs of c are spot VMs, which the cloud may reclaim.
func (d *Driver) Interruptible(c cloud.Class) bool {
	s, ok := c.Spec.(*spec)
	return ok && s.Spot
}
