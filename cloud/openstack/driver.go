package openstack

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync"
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
	transport http.RoundTripper
	ambient   *environment // nil if it does not count
	now       func() time.Time

	refusals cloud.Refusals
}

// The parts of the contract that a Driver keeps.
var (
	_ cloud.Driver      = (*Driver)(nil)
	_ cloud.VolumeNamer = (*Driver)(nil)
)

// NewDriver returns a Driver.
func NewDriver(o Options) *Driver {
	d := &Driver{transport: o.Transport, now: o.Now}
	if d.now == nil {
		d.now = time.Now
	}
	if o.Ambient {
		d.ambient = ownEnvironment()
	}
	return d
}

// Parse decodes and checks a provider spec.
func (d *Driver) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
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
func (d *Driver) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	return loginOf(creds, d.ambient).problems
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
	s, err := d.connect(ctx, who, c.Spec.Region)
	if err != nil {
		return nil, cloud.Errorf(cloud.Denied, opLogin, "NoCredentials", "the credentials cannot be used: %w", err)
	}
	if failed := s.renew(ctx, opLogin, ""); failed != nil {
		s.close()
		return nil, failed
	}
	return newAccount(d.now, c.Spec.Region, s), nil
}

// ProviderName is MachineClass.provider.
const ProviderName = "OpenStack"

const (
	providerIDScheme = "openstack://"

	// settleTime is for a request whose answer was lost while Nova was still at
	// work with it. What Nova has accepted it shows at once.
	settleTime = 15 * time.Second

	// userDataMax are as many bytes as are 65535 in base64.
	userDataMax = 65535 / 4 * 3
	nameMax     = 255

	// descriptionMax is how long a description in Neutron may be.
	descriptionMax = 255
)

// Drivers of persistent volumes.
const (
	csiDriver    = "cinder.csi.openstack.org"
	inTreePlugin = "kubernetes.io/cinder"
)

// Traits are the constants of OpenStack.
func (d *Driver) Traits() cloud.Traits {
	return cloud.Traits{
		Name: ProviderName, UserDataMax: userDataMax, NameMax: nameMax, Settle: settleTime,
		NodeNamed: true,
	}
}

var serverID = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// DecodeProviderID accepts openstack:///<region>/<id>, which MCM writes, and
// openstack:///<id> and openstack://<region>/<id>, which stand on Nodes.
func (d *Driver) DecodeProviderID(providerID string) (id string, ok bool) {
	return decodeProviderID(providerID)
}

func decodeProviderID(providerID string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(providerID, providerIDScheme)
	at := strings.LastIndex(rest, "/")
	if !ok || at < 0 {
		return "", false
	}
	id = strings.ToLower(rest[at+1:])
	if !serverID.MatchString(id) {
		return "", false
	}
	return id, true
}

// providerID is MCM's form.
func providerID(region, id string) string { return providerIDScheme + "/" + region + "/" + id }

// nodeProviderID is the form of the cloud controller manager.
func nodeProviderID(id string) string { return providerIDScheme + "/" + id }

// VolumeID returns the id of a Cinder volume.
func (d *Driver) VolumeID(v cloud.Volume) (id string, ok bool) {
	if v.Driver != csiDriver && v.Driver != inTreePlugin {
		return "", false
	}
	return v.Handle, v.Handle != ""
}

// account is the cloud.Account of one set of credentials in one region.
type account struct {
	region string
	now    func() time.Time
	*session

	flavors memory[flavor]
	ids     memory[string] // of images, networks and groups, by kind and name
	turns   turns

	requests memory[request] // for servers, by attempt
}

func newAccount(now func() time.Time, region string, s *session) *account {
	return &account{region: region, now: now, session: s}
}

// Close ends the session.
func (a *account) Close() error {
	a.close()
	return nil
}

// memory keeps what rarely changes for a while.
type memory[V any] struct {
	mu    sync.Mutex
	known map[string]V
	since map[string]time.Time
}

// get returns what is known of key and younger than age.
func (m *memory[V]) get(key string, now time.Time, age time.Duration) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.known[key]
	return v, ok && now.Sub(m.since[key]) < age
}

func (m *memory[V]) put(key string, v V, now time.Time) {
	const forget = 10_000
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= forget {
		m.known, m.since = map[string]V{}, map[string]time.Time{}
	}
	m.known[key], m.since[key] = v, now
}

// turns lets one caller at a time do something with a machine.
type turns struct {
	mu     sync.Mutex
	queues map[string]*queue
}

type queue struct {
	turn    chan struct{}
	waiting int
}

// take returns when it is the caller's turn, and how to end it.
func (t *turns) take(ctx context.Context, op, key string) (done func(), failed *cloud.Error) {
	t.mu.Lock()
	if t.queues == nil {
		t.queues = map[string]*queue{}
	}
	q := t.queues[key]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		t.queues[key] = q
	}
	q.waiting++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.waiting--; q.waiting == 0 {
			delete(t.queues, key)
		}
	}
	select {
	case q.turn <- struct{}{}:
		return func() { <-q.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, cloud.Errorf(cloud.Unavailable, op, "NotSent", "request not sent: %w", ctx.Err())
	}
}
