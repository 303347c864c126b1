package openstack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is one of Nova's as its owner sees it.
type Server struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Status   string            `json:"status"`
	Metadata map[string]string `json:"metadata"`
	Task     string            `json:"OS-EXT-STS:task_state"`
	UserData string            `json:"OS-EXT-SRV-ATTR:user_data"` // in base64; for administrators
	Zone     string            `json:"OS-EXT-AZ:availability_zone"`

	ConfigDrive string  `json:"config_drive"` // "True", or empty
	Image       ImageID `json:"image"`        // empty for a server that boots from a volume
}

// Port is one of Neutron's.
type Port struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Device      string   `json:"device_id"`
	Network     string   `json:"network_id"`
	Secure      bool     `json:"port_security_enabled"`
	Groups      []string `json:"security_groups"`
	IPs         []struct {
		IP string `json:"ip_address"`
	} `json:"fixed_ips"`
	Pairs []struct {
		IP string `json:"ip_address"`
	} `json:"allowed_address_pairs"`
}

// Entry is a server, a port or a floating IP in the books of the cloud.
type Entry struct {
	ID, Name    string            // a floating IP has no name
	Metadata    map[string]string // of a server
	Description string            // of a port or a floating IP
}

// peek is the time between two looks into the databases, which cost Nova
// nothing: it has one processor for all that is asked of it.
const peek = 50 * time.Millisecond

// timeout bounds what takes seconds, and on a machine with much other work minutes.
const timeout = 10 * time.Minute

// Rest waits until none of the project's servers and volumes is on its way to
// another state, and reports whether any was. It waits no longer than a server
// takes to be built on a loaded machine.
func (p *Project) Rest(t testing.TB) (moved bool) {
	t.Helper()
	const timeout = 30 * time.Second
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(peek) {
		servers := p.query(t, fmt.Sprintf(`SELECT instance_uuid FROM nova_api.build_requests WHERE project_id = '%[1]s' UNION
			SELECT uuid FROM nova_cell1.instances WHERE project_id = '%[1]s' AND deleted = 0
			AND (task_state IS NOT NULL OR vm_state = 'building')`, p.ID))
		if len(servers) == 0 && !slices.ContainsFunc(p.Volumes(t), func(v Volume) bool { return v.Moving }) {
			return moved
		}
		moved = true
	}
	return moved
}

// Servers returns the project's servers, as Nova's databases have them. Those
// that are on their way in or out are waited for.
func (p *Project) Servers(t testing.TB) []Entry {
	t.Helper()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(peek) {
		moving := p.query(t, fmt.Sprintf(`SELECT instance_uuid FROM nova_api.build_requests WHERE project_id = '%[1]s' UNION
			SELECT uuid FROM nova_cell1.instances WHERE project_id = '%[1]s' AND deleted = 0
			AND task_state IN ('deleting', 'soft-deleting')`, p.ID))
		if len(moving) == 0 {
			break
		}
	}
	var all []Entry
	for _, cell := range []string{"nova_cell0", "nova_cell1"} {
		rows := p.query(t, fmt.Sprintf("SELECT i.uuid, i.display_name, m.`key`, m.value FROM %[1]s.instances i LEFT JOIN "+
			"%[1]s.instance_metadata m ON m.instance_uuid = i.uuid AND m.deleted = 0 "+
			"WHERE i.project_id = '%[2]s' AND i.deleted = 0 ORDER BY i.uuid", cell, p.ID))
		for _, row := range rows {
			fields := strings.Split(row, "\t")
			if len(all) == 0 || all[len(all)-1].ID != fields[0] {
				all = append(all, Entry{ID: fields[0], Name: fields[1], Metadata: map[string]string{}})
			}
			if fields[2] != "NULL" {
				all[len(all)-1].Metadata[fields[2]] = fields[3]
			}
		}
	}
	return all
}

// Ports returns the ports of the project but those of routers.
func (p *Project) Ports(t testing.TB) []Entry {
	t.Helper()
	return p.described(t, "neutron.ports", "n.name", "n.device_owner NOT LIKE 'network:%'")
}

// FloatingIPs returns the floating IPs of the project.
func (p *Project) FloatingIPs(t testing.TB) []Entry {
	t.Helper()
	return p.described(t, "neutron.floatingips", "''", "true")
}

// described returns the project's rows of a table of Neutron's for which the condition
// is true.
func (p *Project) described(t testing.TB, table, name, condition string) []Entry {
	t.Helper()
	var all []Entry
	for _, row := range p.query(t, fmt.Sprintf("SELECT n.id, %s, COALESCE(s.description, '') FROM %s n "+
		"JOIN neutron.standardattributes s ON n.standard_attr_id = s.id WHERE n.project_id = '%s' AND %s",
		name, table, p.ID, condition)) {
		fields := strings.Split(row, "\t")
		all = append(all, Entry{ID: fields[0], Name: fields[1], Description: fields[2]})
	}
	return all
}

func (p *Project) query(t testing.TB, sql string) []string {
	t.Helper()
	rows, err := p.Rig.books.query(p.Rig.settings, sql)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Server returns a server as an administrator sees it.
func (p *Project) Server(t testing.TB, id string) Server {
	t.Helper()
	var out struct {
		Server Server `json:"server"`
	}
	if err := p.Rig.admin.do(t.Context(), http.MethodGet, "nova/servers/"+id, nil, &out); err != nil {
		t.Fatalf("get server: %v", err)
	}
	return out.Server
}

// Actions returns how often each action was asked for a server.
func (p *Project) Actions(t testing.TB, id string) map[string]int {
	t.Helper()
	var out struct {
		Actions []struct {
			Action string `json:"action"`
		} `json:"instanceActions"`
	}
	err := p.Rig.admin.do(t.Context(), http.MethodGet, "nova/servers/"+id+"/os-instance-actions", nil, &out)
	if err != nil {
		t.Fatalf("list actions: %v", err)
	}
	n := map[string]int{}
	for _, a := range out.Actions {
		n[a.Action]++
	}
	return n
}

// PortsOf returns the ports of a server.
func (p *Project) PortsOf(t testing.TB, server string) []Port {
	t.Helper()
	var out struct {
		Ports []Port `json:"ports"`
	}
	if err := p.own.do(t.Context(), http.MethodGet, "neutron/ports?device_id="+server, nil, &out); err != nil {
		t.Fatalf("list ports: %v", err)
	}
	return out.Ports
}

// SecurityGroup returns the id and the number of rules of the one security group of that
// name.
func (p *Project) SecurityGroup(t testing.TB, name string) (id string, rules int) {
	t.Helper()
	var out struct {
		Groups []struct {
			ID    string           `json:"id"`
			Rules []map[string]any `json:"security_group_rules"`
		} `json:"security_groups"`
	}
	if err := p.own.do(t.Context(), http.MethodGet, "neutron/security-groups?name="+name, nil, &out); err != nil ||
		len(out.Groups) != 1 {
		t.Fatalf("there are %d security groups %q, want one: %v", len(out.Groups), name, err)
	}
	return out.Groups[0].ID, len(out.Groups[0].Rules)
}

// AddPort makes a port, with tags.
func (p *Project) AddPort(t testing.TB, name, description string, tags []string) string {
	t.Helper()
	id, err := p.own.create(t.Context(), "neutron", "/ports", "port",
		object{"network_id": p.Network, "name": name, "description": description})
	if err == nil && len(tags) > 0 {
		err = p.own.do(t.Context(), http.MethodPut, "neutron/ports/"+id+"/tags", object{"tags": tags}, nil)
	}
	if err != nil {
		t.Fatalf("make a port: %v", err)
	}
	return id
}

// AddFloatingIP makes a floating IP that no port has, with tags.
func (p *Project) AddFloatingIP(t testing.TB, description string, tags []string) string {
	t.Helper()
	id, err := p.own.create(t.Context(), "neutron", "/floatingips", "floatingip",
		object{"floating_network_id": p.Rig.External, "description": description})
	if err == nil && len(tags) > 0 {
		err = p.own.do(t.Context(), http.MethodPut, "neutron/floatingips/"+id+"/tags", object{"tags": tags}, nil)
	}
	if err != nil {
		t.Fatalf("make a floating IP: %v", err)
	}
	return id
}

// Act does something with a server, as an administrator, once Nova has finished what it is
// at, and waits until it has the status; empty waits until it is gone.
func (p *Project) Act(t testing.TB, id string, action object, status string) {
	t.Helper()
	method, path := http.MethodPost, "/servers/"+id+"/action"
	var body any = action
	if action == nil {
		method, path, body = http.MethodDelete, "/servers/"+id, nil
	}
	p.Rest(t)
	if err := p.Rig.admin.do(t.Context(), method, "nova"+path, body, nil); err != nil {
		t.Fatalf("%v: %v", action, err)
	}
	p.await(t, id, status)
}

func (p *Project) await(t testing.TB, id, status string) {
	t.Helper()
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); time.Sleep(peek) {
		if len(p.query(t, fmt.Sprintf("SELECT id FROM nova_cell1.instances WHERE uuid = '%s' AND deleted = 0 AND "+
			"task_state IS NOT NULL", id))) > 0 {
			continue
		}
		var out struct {
			Server Server `json:"server"`
		}
		err := p.Rig.admin.do(t.Context(), http.MethodGet, "nova/servers/"+id, nil, &out)
		refusal, refused := errors.AsType[*refusalError](err)
		if refused && refusal.status == http.StatusNotFound && status == "" || err == nil && out.Server.Status == status &&
			out.Server.Task == "" {
			return
		}
	}
	t.Fatalf("server %s does not become %q", id, status)
}

// AttachVolume attaches a volume to a server.
func (p *Project) AttachVolume(t testing.TB, server, volume string) {
	t.Helper()
	err := p.own.do(t.Context(), http.MethodPost, "nova/servers/"+server+"/os-volume_attachments",
		object{"volumeAttachment": object{"volumeId": volume}}, nil)
	if err != nil {
		t.Fatalf("attach volume: %v", err)
	}
	Until(t, "volume "+volume+" gets attached", func() bool {
		return slices.ContainsFunc(p.Volumes(t), func(v Volume) bool { return v.ID == volume && v.Status == "in-use" })
	})
}

// model is a server that others are copied from.
type model struct {
	sync.Mutex
	id      string
	columns map[string]string // of tables, without those that differ
}

// AddServer puts a running server into the project's database, which takes a
// moment where Nova takes seconds. It has no ports.
func (p *Project) AddServer(t testing.TB, name string, metadata map[string]string, created time.Time) string {
	t.Helper()
	id, err := p.copyServer(context.WithoutCancel(t.Context()), name, metadata, created)
	if err != nil {
		t.Fatalf("copy a server: %v", err)
	}
	return id
}

// copied are the tables that describe a server, and the columns that differ.
var copied = map[string][]string{
	"instances": {
		"id", "uuid", "display_name", "hostname", "project_id", "user_id", "created_at",
		"launched_at",
	},
	"instance_extra":       {"id", "instance_uuid"},
	"instance_info_caches": {"id", "instance_uuid"},
}

func (p *Project) copyServer(ctx context.Context, name string, metadata map[string]string, created time.Time) (string,
	error,
) {
	r := p.Rig
	if err := r.makeTemplate(ctx); err != nil {
		return "", err
	}
	id := fmt.Sprintf("5eeded00-0000-4000-8000-%012x", os.Getpid()<<20+int(r.number.Add(1)))
	at := created.UTC().Format("2006-01-02 15:04:05")
	var sql strings.Builder
	fmt.Fprintf(&sql, "INSERT INTO nova_cell1.instances (%[1]s, uuid, display_name, hostname, project_id, user_id, "+
		"created_at, launched_at) SELECT %[1]s, '%[2]s', '%[3]s', 'seeded', '%[4]s', '%[5]s', '%[6]s', '%[6]s' FROM "+
		"nova_cell1.instances WHERE uuid = '%[7]s';",
		r.model.columns["instances"], id, name, p.ID, p.UserID, at, r.model.id)
	for _, table := range []string{"instance_extra", "instance_info_caches"} {
		fmt.Fprintf(&sql, "INSERT INTO nova_cell1.%[1]s (%[2]s, instance_uuid) SELECT %[2]s, '%[3]s' FROM "+
			"nova_cell1.%[1]s WHERE instance_uuid = '%[4]s';",
			table, r.model.columns[table], id, r.model.id)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		fmt.Fprintf(&sql, "INSERT INTO nova_cell1.instance_metadata (created_at, instance_uuid, `key`, value, deleted) "+
			"VALUES ('%s', '%s', '%s', '%s', 0);", at, id, key, metadata[key])
	}
	fmt.Fprintf(&sql, "INSERT INTO nova_api.instance_mappings (created_at, instance_uuid, cell_id, project_id, "+
		"user_id, queued_for_delete) SELECT '%s', '%s', id, '%s', '%s', 0 FROM nova_api.cell_mappings WHERE name = 'cell1';",
		at, id, p.ID, p.UserID)
	_, err := r.books.query(r.settings, sql.String())
	return id, err
}

// makeTemplate makes the server that others are copied from, once.
func (r *Rig) makeTemplate(ctx context.Context) error {
	r.model.Lock()
	defer r.model.Unlock()
	if r.model.id != "" {
		return nil
	}
	id, err := r.admin.create(ctx, "nova", "/servers", "server", object{
		"name": "template", "flavorRef": r.Flavors[FlavorSmall], "imageRef": r.Images[Image], "networks": "none",
	})
	if err != nil {
		return err
	}
	for status := ""; status != "ACTIVE"; time.Sleep(100 * time.Millisecond) {
		var out struct {
			Server Server `json:"server"`
		}
		if err := r.admin.do(ctx, http.MethodGet, "nova/servers/"+id, nil, &out); err != nil {
			return err
		}
		if status = out.Server.Status; status == "ERROR" {
			return errors.New("the template failed")
		}
	}
	r.model.columns = map[string]string{}
	for table, differ := range copied {
		out, err := r.sql(ctx, fmt.Sprintf("SELECT column_name FROM information_schema.columns WHERE table_schema = "+
			"'nova_cell1' AND table_name = '%s' AND column_name NOT IN ('%s')",
			table, strings.Join(differ, "', '")))
		if err != nil {
			return err
		}
		r.model.columns[table] = "`" + strings.Join(strings.Fields(out), "`, `") + "`"
	}
	r.model.id = id
	return nil
}

// AwaitBuild returns when a server is built, or has failed, or is gone.
func (p *Project) AwaitBuild(id string) {
	const tries = 6000 // five minutes
	for range tries {
		rows, err := p.Rig.books.query(p.Rig.settings,
			fmt.Sprintf("SELECT vm_state FROM nova_cell1.instances WHERE uuid = '%s'", id))
		if err != nil || len(rows) == 1 && rows[0] != "building" {
			return
		}
		time.Sleep(peek)
	}
}

// Until calls f until it returns true, and ends the test when that takes too long.
func Until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !f(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in %v", what, timeout)
		}
	}
}
