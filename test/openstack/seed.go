package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// endpoints puts the catalog into Keystone's database.
func (r *Rig) endpoints() string {
	urls := []struct{ kind, name, url string }{
		{"identity", "keystone", r.URL("keystone") + "/v3"},
		{"compute", "nova", r.URL("nova") + "/v2.1"},
		{"placement", "placement", r.URL("placement")},
		{"image", "glance", r.URL("glance")},
		{"network", "neutron", r.URL("neutron")},
		{"volumev3", "cinder", r.CinderURL + "/v3/%(tenant_id)s"},
	}
	var sql strings.Builder
	sql.WriteString("DELETE FROM keystone.endpoint; DELETE FROM keystone.service;")
	for i, u := range urls {
		service := fmt.Sprintf("%032x", i+1)
		fmt.Fprintf(&sql, `INSERT INTO keystone.service (id, type, enabled, extra) VALUES ('%s', '%s', 1, '{"name":"%s"}');`,
			service, u.kind, u.name)
		for j, of := range []string{"public", "internal", "admin"} {
			fmt.Fprintf(&sql, "INSERT INTO keystone.endpoint (id, interface, service_id, url, extra, enabled, region_id) "+
				"VALUES ('%032x', '%s', '%s', '%s', '{}', 1, '%s');",
				100*(i+1)+j, of, service, u.url, Region)
		}
	}
	return sql.String()
}

// The flavors and images that every rig has.
const (
	FlavorSmall  = "m1.small"  // 1 CPU, 2 GiB, 10 GiB
	FlavorMedium = "m1.medium" // 2 CPUs, 4 GiB, 40 GiB
	FlavorLarge  = "m1.large"  // 2 CPUs, 4 GiB, 40 GiB, 1 GPU, which no host has
	FlavorHuge   = "m1.huge"   // no host has room for it
	Image        = "ubuntu-24.04"
	ImageNext    = "ubuntu-24.04-next" // what an upgrade goes to
)

// seed makes what a cloud has before its first user comes.
func (r *Rig) seed(ctx context.Context) error {
	for name, f := range map[string][3]int{
		FlavorSmall: {1, 2048, 10}, FlavorMedium: {2, 4096, 40}, FlavorLarge: {2, 4096, 40},
		FlavorHuge: {2000, 2048, 40},
	} {
		id, err := r.admin.create(ctx, "nova", "/flavors", "flavor",
			object{"name": name, "vcpus": f[0], "ram": f[1], "disk": f[2]})
		if err != nil {
			return err
		}
		r.Flavors[name] = id
	}
	specs := object{"extra_specs": object{"pci_passthrough:alias": "a-gpu:1"}}
	if err := r.admin.do(ctx, http.MethodPost, "nova/flavors/"+r.Flavors[FlavorLarge]+"/os-extra_specs", specs,
		nil); err != nil {
		return err
	}
	for _, name := range []string{Image, ImageNext} {
		if err := r.seedImage(ctx, name); err != nil {
			return err
		}
	}
	if err := r.seedExternal(ctx); err != nil {
		return err
	}
	return r.seedHosts(ctx)
}

// seedImage makes an image that all projects may use.
func (r *Rig) seedImage(ctx context.Context, name string) error {
	var image struct {
		ID string `json:"id"`
	}
	err := r.admin.do(ctx, http.MethodPost, "glance/images", object{
		"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public", "min_disk": 1,
		"architecture": "x86_64",
	}, &image)
	if err != nil {
		return err
	}
	r.Images[name] = image.ID
	return r.admin.do(ctx, http.MethodPut, "glance/images/"+image.ID+"/file", make([]byte, 1<<12), nil)
}

// seedExternal makes the external network, whose floating IPs all projects may have.
func (r *Rig) seedExternal(ctx context.Context) (err error) {
	r.External, err = r.admin.create(ctx, "neutron", "/networks", "network",
		object{"name": PoolName, "router:external": true})
	if err != nil {
		return err
	}
	_, err = r.admin.create(ctx, "neutron", "/subnets", "subnet",
		object{"network_id": r.External, "ip_version": 4, "cidr": "172.24.0.0/16", "enable_dhcp": false})
	return err
}

// seedHosts puts the computes into their zones, once they are there.
func (r *Rig) seedHosts(ctx context.Context) error {
	if err := r.awaitHosts(ctx); err != nil {
		return err
	}
	// What nova-manage cell_v2 discover_hosts does.
	_, err := r.sql(ctx, `INSERT INTO nova_api.host_mappings (created_at, cell_id, host)
		SELECT UTC_TIMESTAMP(), c.id, n.host FROM nova_api.cell_mappings c
		JOIN nova_cell1.compute_nodes n WHERE c.name = 'cell1' AND n.mapped = 0;
		UPDATE nova_cell1.compute_nodes SET mapped = 1;`)
	if err != nil {
		return err
	}
	for _, h := range r.hosts() { // each has a zone of its own
		var out struct {
			Aggregate struct {
				ID int `json:"id"`
			} `json:"aggregate"`
		}
		if err := r.admin.do(ctx, http.MethodPost, "nova/os-aggregates",
			object{"aggregate": object{"name": h.zone, "availability_zone": h.zone}}, &out); err != nil {
			return err
		}
		if err := r.admin.do(ctx, http.MethodPost, fmt.Sprintf("nova/os-aggregates/%d/action", out.Aggregate.ID),
			object{"add_host": object{"host": h.name}}, nil); err != nil {
			return err
		}
	}
	// A fresh Neutron answers a list of ports only after another query.
	return r.admin.do(ctx, http.MethodGet, "neutron/networks?limit=1", nil, nil)
}

// awaitHosts waits until all computes have said that they are there.
func (r *Rig) awaitHosts(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		names, err := r.sql(ctx, `SELECT DISTINCT p.name FROM placement.resource_providers p
			JOIN placement.inventories i ON i.resource_provider_id = p.id`)
		if err != nil || len(strings.Fields(names)) == len(r.hosts()) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(errors.New("the computes do not come up"), ctx.Err(), errors.New(r.Logs()))
		}
	}
}

// Valid reports whether Keystone knows a token.
func (r *Rig) Valid(ctx context.Context, token string) bool {
	_, ok := r.projectOf(ctx, token)
	return ok
}

// projectOf returns the project that a token is for.
func (r *Rig) projectOf(ctx context.Context, token string) (string, bool) {
	admin, err := r.admin.logIn(ctx)
	if err != nil {
		return "", false
	}
	var out struct {
		Token struct {
			Project struct {
				ID string `json:"id"`
			} `json:"project"`
		} `json:"token"`
	}
	header := http.Header{"X-Auth-Token": {admin}, "X-Subject-Token": {token}}
	_, text, err := r.admin.send(ctx, http.MethodGet, r.URL("keystone")+"/v3/auth/tokens", header, nil)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return "", false
	}
	return out.Token.Project.ID, true
}
