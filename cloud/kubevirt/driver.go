package kubevirt

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Driver is the cloud.Driver of KubeVirt.
type Driver struct {
	judge
	transport http.RoundTripper
	now       func() time.Time

	limit    int // of the objects in one answer of a listing
	refusals cloud.Refusals
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
	_ cloud.Tagger      = (*Driver)(nil)
)

// NewDriver returns a Driver that reads the time from now. Its calls go through transport; nil is
// one of its own for each account, which is secured as the kubeconfig says.
func NewDriver(now func() time.Time, transport http.RoundTripper) *Driver {
	return &Driver{transport: transport, now: now, limit: pageSize}
}

// judge is the part of the Driver that calls no cloud.
type judge struct{}

// Offline returns a cloud.Driver that judges classes and Secrets, and opens no account.
func Offline() cloud.Driver { return driverkit.Offline{Judge: judge{}} }

// Traits are the constants of KubeVirt. API servers have no rate for a client that is documented:
// they share what they can do among all clients, and say when one has to wait.
func (judge) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, Names: nameLimits, NodeNamed: true,
		CreateKey: true, Reboots: true, Consoles: true, Tags: tagLimits,
		Secret: cloud.SecretKeys{Credential: []string{kubeconfigEntry}},
	}
}

// Parse decodes and checks a provider spec.
func (judge) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	s := decode(in.Spec)
	s.validate()
	problems := s.Problems.Report()
	var owner []string
	for _, key := range s.ownerKeys() {
		owner = append(owner, key+"="+s.owns[key])
	}
	zones := slices.Sorted(slices.Values(s.Zones))
	return cloud.Class{
		Name: in.Name, Namespace: in.Namespace, Owner: strings.Join(owner, " "),
		Region: s.Region, Zone: s.Zone, Zones: slices.Compact(zones), InstanceType: s.instanceType(), Spec: s,
	}, problems
}

// CheckSecret names what is wrong with the kubeconfig.
func (judge) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	_, problems := readSecret(creds)
	return problems
}

// DecodeProviderID accepts kubevirt://<name>, which MCM writes and which stands on the Node, and
// forms with a namespace before the name. The id is the name.
func (judge) DecodeProviderID(providerID string) (id string, ok bool) {
	return driverkit.DecodeProviderID(providerID, providerIDScheme, vmName)
}

// VolumeID returns the handle of a volume of KubeVirt's CSI driver: the name of a claim next to the VM.
func (judge) VolumeID(v cloud.Volume) (id string, ok bool) {
	return driverkit.VolumeHandle(v, csiDriver)
}

// UserTags returns the tags of c that SetTags sets.
func (judge) UserTags(c cloud.Class) map[string]string {
	s, ok := c.Spec.(*spec)
	if !ok {
		return map[string]string{}
	}
	return maps.Clone(s.userTags())
}

// Open asks the API server whether it knows KubeVirt, and returns the Account.
func (d *Driver) Open(ctx context.Context, c cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	const op = "log in"
	at, problems := readSecret(creds)
	if err := cloud.Worst(op, problems, cloud.BlocksAll); err != nil {
		return nil, err
	}
	if _, err := driverkit.SpecOf[*spec](op, c); err != nil {
		return nil, err
	}
	client, err := d.connect(at, creds)
	if err != nil {
		return nil, cloud.Errorf(cloud.Invalid, op, "InvalidSecret", "the kubeconfig %w", err)
	}
	const remembered, scopeTimeout = time.Hour, 10 * time.Second
	a := &account{
		client: client, now: d.now,
		scope: driverkit.NewCache[struct{}, string](driverkit.CacheOptions{Now: d.now, Timeout: scopeTimeout}),
		asked: driverkit.NewCache[string, bool](driverkit.CacheOptions{Keep: remembered, Now: d.now}),
	}
	if _, _, err := client.session.Login.Get(ctx, op); err != nil {
		_ = a.Close()
		return nil, err
	}
	return a, nil
}

// account is the cloud.Account of one kubeconfig.
type account struct {
	client *client
	now    func() time.Time
	scope  *driverkit.Cache[struct{}, string]
	asked  *driverkit.Cache[string, bool] // attempts that VMs were asked for, by the names of their Secrets
}

var (
	_ cloud.Rebooter      = (*account)(nil)
	_ cloud.ConsoleReader = (*account)(nil)
	_ cloud.TagSetter     = (*account)(nil)
	_ cloud.Scoper        = (*account)(nil)
)

// Close ends connections. It may be called again.
func (a *account) Close() error {
	a.client.session.Login.Close()
	if a.client.own != nil {
		a.client.own.CloseIdleConnections()
	}
	return nil
}
