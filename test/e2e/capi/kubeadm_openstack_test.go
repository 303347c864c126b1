package capi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/octaviatest"
	"github.com/capmcm/cluster-api-provider-mcm/test/openstack"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capmcm/cluster-api-provider-mcm/test/e2e/capi/guests"
)

const apiServerPool = "11111111-1111-1111-1111-111111111111"

// openStack are real services with a project of them, and a double of Octavia.
type openStack struct {
	*openstack.Project
	octavia  *octaviatest.Balancer
	keystone string // the address of a Keystone whose catalog has Octavia
	servers  remembered[[]openstack.Server]
	ports    remembered[[]openstack.Port]
}

// remembered is an answer that is believed for a moment: guests and tests ask often, and
// the services have one processor for all that is asked of them.
type remembered[T any] struct {
	mu    sync.Mutex
	value T
	at    time.Time
}

func (r *remembered[T]) get(ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	const moment = 500 * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < moment {
		return r.value, nil
	}
	value, err := ask(ctx)
	if err == nil {
		r.value, r.at = value, time.Now()
	}
	return value, err
}

// openStackLife is the whole life of a Cluster, over the two zones that the services have.
func openStackLife(t *testing.T, m *management, ctl clusterctl) {
	t.Helper()
	o := &openStack{Project: openstack.ForTest(t).NewProject(t), octavia: octaviatest.New(apiServerPool)}
	octavia := httptest.NewServer(o.octavia)
	t.Cleanup(octavia.Close)
	o.keystone = keystoneWith(t, o.Rig.URL("keystone"), octavia.URL)
	k := newCloudCluster(t, m, ctl, "openstack", o, nil)
	k.zones = 2
	k.next = map[string]any{"spec.imageName": openstack.ImageNext}
	k.longLife(t, "openstack", func(all rendered) {
		for _, c := range all.pick("MCMCluster") {
			zones, _, err := unstructured.NestedSlice(c.Object, "spec", "failureDomains")
			if err == nil {
				err = unstructured.SetNestedSlice(c.Object, zones[:k.zones], "spec", "failureDomains")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// keystoneWith passes requests on to a Keystone and puts Octavia into the catalogs that it
// answers.
func keystoneWith(t *testing.T, keystone, octavia string) string {
	t.Helper()
	at, err := url.Parse(keystone)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.ModifyResponse = func(r *http.Response) error {
		if r.StatusCode != http.StatusCreated || r.Request.Method != http.MethodPost {
			return nil
		}
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return err
		}
		catalog, _, err := unstructured.NestedSlice(body, "token", "catalog")
		if err != nil {
			return err
		}
		catalog = append(catalog, map[string]any{"type": "load-balancer", "name": "octavia", "endpoints": []any{
			map[string]any{"interface": "public", "region": openstack.Region, "region_id": openstack.Region, "url": octavia},
		}})
		if err := unstructured.SetNestedSlice(body, catalog, "token", "catalog"); err != nil {
			return err
		}
		text, err := json.Marshal(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Length", strconv.Itoa(len(text)))
		return err
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL
}

// Variables are those of flavor openstack.
func (o *openStack) Variables() map[string]string {
	return map[string]string{
		"CONTROL_PLANE_ZONE_1": openstack.Zone, "CONTROL_PLANE_ZONE_2": "az2", "CONTROL_PLANE_ZONE_3": "none",
		"OPENSTACK_API_SERVER_POOL_ID": apiServerPool, "OPENSTACK_IMAGE_NAME": openstack.Image,
		"OPENSTACK_REGION": openstack.Region, "OPENSTACK_AVAILABILITY_ZONE": openstack.Zone,
		"OPENSTACK_FLAVOR_NAME": openstack.FlavorSmall, "OPENSTACK_SSH_KEY_NAME": openstack.KeyName,
		"OPENSTACK_NETWORK_ID": o.Network, "OPENSTACK_AUTH_URL": o.keystone + "/v3", "OPENSTACK_TENANT_NAME": o.Name,
		"OPENSTACK_USERNAME": o.User, "OPENSTACK_PASSWORD": o.Password,
	}
}

// VMs returns the servers. Those of the control plane have a config drive.
func (o *openStack) VMs(ctx context.Context) ([]guests.VM, error) {
	servers, err := o.servers.get(ctx, o.Live)
	versions := map[openstack.ImageID]string{
		openstack.ImageID(o.Rig.Images[openstack.Image]):     oldKubernetes,
		openstack.ImageID(o.Rig.Images[openstack.ImageNext]): newKubernetes,
	}
	var vms []guests.VM
	for _, s := range servers {
		_, controlPlane := s.Metadata["kubernetes.io-role-control-plane"]
		if drive := s.ConfigDrive == "True"; drive != controlPlane {
			return nil, fmt.Errorf("server %s of the control plane: %v, has a config drive: %v", s.Name, controlPlane, drive)
		}
		vms = append(vms, guests.VM{
			ID: s.ID, Name: s.Name, Version: versions[s.Image], NodeName: s.Name, ProviderID: "openstack:///" + s.ID,
			Running: s.Status == "ACTIVE" && s.Task == "",
			Metadata: guests.Metadata{
				InstanceID: s.ID, Hostname: s.Name + ".novalocal", Zone: s.Zone,
				Source: map[string]string{"instance_id": s.ID, "local_hostname": s.Name, "hostname": s.Name + ".novalocal"},
			},
		})
	}
	return vms, err
}

// UserData returns what Nova gives the guest of a server.
func (o *openStack) UserData(ctx context.Context, id string) ([]byte, error) {
	servers, err := o.servers.get(ctx, o.Live)
	at := slices.IndexFunc(servers, func(s openstack.Server) bool { return s.ID == id })
	if err != nil || at < 0 {
		return nil, fmt.Errorf("server %s: it is gone, %w", id, err)
	}
	return base64.StdEncoding.DecodeString(servers[at].UserData)
}

// Members returns the servers that have the addresses of the pool's members.
func (o *openStack) Members(ctx context.Context) ([]string, error) {
	members := o.octavia.Members(apiServerPool)
	if len(members) == 0 {
		return nil, nil
	}
	ports, err := o.ports.get(ctx, o.LivePorts)
	servers := map[string]string{}
	for _, p := range ports {
		for _, ip := range p.IPs {
			servers[ip.IP] = p.Device
		}
	}
	var ids []string
	for _, member := range members {
		if member.Port == apiPort {
			ids = append(ids, servers[member.Address])
		}
	}
	return ids, err
}

// Settled: the pool has the control plane's servers.
func (o *openStack) Settled(ctx context.Context, controlPlane []string) error {
	return membersAre(ctx, o, controlPlane)
}

// Left names servers, ports, volumes and members.
func (o *openStack) Left(ctx context.Context) ([]string, error) {
	servers, err := o.Live(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := o.LivePorts(ctx)
	if err != nil {
		return nil, err
	}
	volumes, err := o.LiveVolumes(ctx)
	var left []string
	for _, s := range servers {
		left = append(left, "server "+s.Name)
	}
	for _, p := range ports {
		left = append(left, "port "+p.ID)
	}
	for _, v := range volumes {
		left = append(left, "volume "+v.ID)
	}
	for _, m := range o.octavia.Members(apiServerPool) {
		left = append(left, "member "+m.Name)
	}
	return left, err
}
