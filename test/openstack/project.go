package openstack

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// Project belongs to one test at a time. It has a user, a network and a key pair.
type Project struct {
	Rig *Rig

	ID, Name         string
	UserID, User     string
	Password         string
	Network, Subnet  string // ids
	Network2, Group2 string // ids of a second network and of a security group
	ServerGroup      string // id

	own    *client
	used   bool // it is not as it was made, and never will be again
	routed bool // its network is connected to the external one
}

// Names of what every project has.
const (
	KeyName      = "a-key"
	NetworkName  = "nodes"
	Network2Name = "storage"
	GroupName    = "nodes-group"
	SubnetName   = "nodes-subnet"
	SpreadName   = "spread" // of the server group
	PoolName     = "public" // of the external network
)

// publicKey is that of a key pair whose private key is lost.
const publicKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1pyjyFiwmjBbbQsjd4RQPbDgMBbLwV1QGsB4bYFTnW test"

// NewProject returns a project in which there is nothing yet. It may be one that
// a test left without a trace.
func (r *Rig) NewProject(t testing.TB) *Project {
	t.Helper()
	p := r.free.take()
	if p == nil {
		id := fmt.Sprintf("%d-%d", os.Getpid(), r.number.Add(1)) // others may use the rig, too
		p = &Project{
			Rig: r, Name: "project-" + id, User: "user-" + id, Password: "canary-password-" + id + "-Ax9/+",
		}
		if err := p.make(context.WithoutCancel(t.Context())); err != nil {
			t.Fatalf("make a project: %v", err)
		}
	}
	t.Cleanup(func() {
		if !p.used && len(p.Servers(t)) == 0 && len(p.Ports(t)) == 0 && len(p.Volumes(t)) == 0 &&
			len(p.FloatingIPs(t)) == 0 {
			r.free.put(p)
		}
	})
	return p
}

// stock are unused projects.
type stock struct {
	mu  sync.Mutex
	all []*Project
}

func (s *stock) take() *Project {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return nil
	}
	p := s.all[len(s.all)-1]
	s.all = s.all[:len(s.all)-1]
	return p
}

func (s *stock) put(p *Project) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, p)
}

func (p *Project) make(ctx context.Context) (err error) {
	admin := p.Rig.admin
	step := func(into *string, c *client, service, path, kind string, properties object) {
		if err == nil {
			*into, err = c.create(ctx, service, path, kind, properties)
		}
	}
	step(&p.ID, admin, "keystone", "/projects", "project", object{"name": p.Name, "domain_id": "default"})
	step(&p.UserID, admin, "keystone", "/users", "user", object{
		"name": p.User, "domain_id": "default",
		"password": p.Password, "default_project_id": p.ID,
	})
	if err == nil {
		var role string
		if role, err = p.Rig.role(ctx); err == nil {
			err = admin.do(ctx, http.MethodPut, "keystone/projects/"+p.ID+"/users/"+p.UserID+"/roles/"+role, nil, nil)
		}
	}
	p.own = &client{rig: p.Rig, user: p.User, password: p.Password, project: p.Name}
	step(&p.Network, p.own, "neutron", "/networks", "network", object{"name": NetworkName})
	step(&p.Subnet, p.own, "neutron", "/subnets", "subnet", object{
		"name": SubnetName, "network_id": p.Network, "ip_version": 4,
		"cidr": "10.20.0.0/16", "enable_dhcp": false,
	})
	step(new(string), p.own, "nova", "/os-keypairs", "keypair",
		object{"name": KeyName, "type": "ssh", "public_key": publicKey})
	return err
}

// role returns the id of the role of an ordinary user.
func (r *Rig) role(ctx context.Context) (string, error) {
	var out struct {
		Roles []struct {
			ID string `json:"id"`
		} `json:"roles"`
	}
	if err := r.admin.do(ctx, http.MethodGet, "keystone/roles?name=member", nil, &out); err != nil ||
		len(out.Roles) != 1 {
		return "", fmt.Errorf("look up role: %d found, %w", len(out.Roles), err)
	}
	return out.Roles[0].ID, nil
}

// More adds what few tests need: a second network, a security group and a server
// group.
func (p *Project) More(t testing.TB) *Project {
	t.Helper()
	p.used = true
	ctx := context.WithoutCancel(t.Context())
	var subnet string
	for _, resource := range []struct {
		into                *string
		service, path, kind string
		properties          func() object
	}{
		{&p.Network2, "neutron", "/networks", "network", func() object { return object{"name": Network2Name} }},
		{&subnet, "neutron", "/subnets", "subnet", func() object {
			return object{"network_id": p.Network2, "ip_version": 4, "cidr": "10.40.0.0/16", "enable_dhcp": false}
		}},
		{&p.Group2, "neutron", "/security-groups", "security_group", func() object { return object{"name": GroupName} }},
		{&p.ServerGroup, "nova", "/os-server-groups", "server_group", func() object {
			return object{"name": SpreadName, "policy": "soft-anti-affinity"}
		}},
	} {
		id, err := p.own.create(ctx, resource.service, resource.path, resource.kind, resource.properties())
		if err != nil {
			t.Fatalf("make a %s: %v", resource.kind, err)
		}
		*resource.into = id
	}
	return p
}

// Route connects the project's network to the external network, so that its ports can
// have floating IPs.
func (p *Project) Route(t testing.TB) *Project {
	t.Helper()
	if p.routed {
		return p
	}
	ctx := context.WithoutCancel(t.Context())
	router, err := p.own.create(ctx, "neutron", "/routers", "router",
		object{"name": "out", "external_gateway_info": object{"network_id": p.Rig.External}})
	if err == nil {
		err = p.own.do(ctx, http.MethodPut, "neutron/routers/"+router+"/add_router_interface",
			object{"subnet_id": p.Subnet}, nil)
	}
	if err != nil {
		t.Fatalf("connect the network to the external one: %v", err)
	}
	p.routed = true
	return p
}

// AuthURL is where to log in.
func (p *Project) AuthURL() string { return p.Rig.URL("keystone") + "/v3" }

// ApplicationCredential makes one and returns its id, name and secret.
func (p *Project) ApplicationCredential(t testing.TB) (id, name, secret string) {
	t.Helper()
	p.used = true
	name = fmt.Sprintf("app-%d", p.Rig.number.Add(1))
	var out struct {
		Credential struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		} `json:"application_credential"`
	}
	err := p.own.do(t.Context(), http.MethodPost, "keystone/users/"+p.UserID+"/application_credentials",
		object{"application_credential": object{"name": name}}, &out)
	if err != nil {
		t.Fatalf("make an application credential: %v", err)
	}
	return out.Credential.ID, name, out.Credential.Secret
}

// Token returns a token of the project's user.
func (p *Project) Token(t testing.TB) string {
	t.Helper()
	token, err := p.own.logIn(t.Context())
	if err != nil {
		t.Fatalf("log in: %v", err)
	}
	return token
}

// DeleteApplicationCredential takes one back.
func (p *Project) DeleteApplicationCredential(t testing.TB, id string) {
	t.Helper()
	if err := p.own.do(t.Context(), http.MethodDelete, "keystone/users/"+p.UserID+"/application_credentials/"+id, nil,
		nil); err != nil {
		t.Fatalf("delete an application credential: %v", err)
	}
}

// forgetting is how long Keystone takes a new token for an old one: it counts
// whole seconds.
const forgetting = 1100 * time.Millisecond

// EndSessions revokes all tokens; the password stays.
func (p *Project) EndSessions(t testing.TB) {
	t.Helper()
	p.setUser(t, object{"password": p.Password})
	time.Sleep(forgetting)
}

// Disable makes the credentials invalid.
func (p *Project) Disable(t testing.TB) {
	t.Helper()
	p.setUser(t, object{"enabled": false})
	time.Sleep(forgetting)
}

func (p *Project) setUser(t testing.TB, change object) {
	t.Helper()
	p.used = true
	if err := p.Rig.admin.do(context.WithoutCancel(t.Context()), http.MethodPatch, "keystone/users/"+p.UserID,
		object{"user": change}, nil); err != nil {
		t.Fatalf("change the user: %v", err)
	}
	p.own.forget()
}

// Limit sets quotas of a service: nova, e.g. {"instances": 1}, or neutron, e.g.
// {"port": 1}.
func (p *Project) Limit(t testing.TB, service string, quota map[string]int) {
	t.Helper()
	p.used = true
	path, kind := "/os-quota-sets/"+p.ID, "quota_set"
	if service == "neutron" {
		path, kind = "/quotas/"+p.ID, "quota"
	}
	if err := p.Rig.admin.do(t.Context(), http.MethodPut, service+path, object{kind: quota}, nil); err != nil {
		t.Fatalf("set quota: %v", err)
	}
}
