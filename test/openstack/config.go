package openstack

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed files
var files embed.FS

// What every rig has.
const (
	Region   = "RegionOne"
	Zone     = "az1"
	PageSize = 50 // of Nova's listings

	// ZoneBroken is where every server fails to be built.
	ZoneBroken = "broken"

	// ZoneReal is where servers are guests of this machine, where the rig has the
	// option Hypervisor.
	ZoneReal = "real"

	adminPassword = "rig-admin-password"
)

// host is a compute, with the zone that it is in and how it behaves.
type host struct{ name, zone, driver string }

// hosts are the computes that the rig has.
func (s settings) hosts() []host {
	all := []host{
		{"host-1", Zone, "fake.FakeDriver"},
		{"host-2", "az2", "fake.FakeDriver"},
		{"host-3", ZoneBroken, "fake.FakeBuildAbortDriver"},
	}
	if s.Hypervisor {
		all = append(all, host{hypervisorName, ZoneReal, "libvirt.LibvirtDriver"})
	}
	return all
}

// settings is what the configuration files are made from.
type settings struct {
	Dir      string
	Ports    map[string]int // by service
	PageSize int
	Zone     string
	Options
}

// DB is the URL of a database.
func (s settings) DB(name string) string {
	return fmt.Sprintf("mysql+pymysql://root@localhost/%s?charset=utf8mb4&unix_socket=%s", name, s.socket())
}

func (s settings) socket() string { return filepath.Join(s.Dir, "db.sock") }

// URL is that of a service.
func (s settings) URL(service string) string {
	return fmt.Sprintf("http://127.0.0.1:%d", s.Ports[service])
}

// Auth is how services log in.
func (s settings) Auth() string {
	keystone := s.URL("keystone") + "/v3"
	return strings.Join([]string{
		"auth_type = password", "auth_url = " + keystone, "www_authenticate_uri = " + keystone, "username = admin",
		"password = " + adminPassword,
		"project_name = admin", "user_domain_id = default", "project_domain_id = default", "region_name = " + Region,
	}, "\n")
}

// write fills the rig's folder with configuration and programs.
func (s settings) write() error {
	for _, dir := range []string{"log", "state/images", "state/nova/instances", "state/lock", "state/neutron"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, dir), 0o750); err != nil {
			return err
		}
	}
	return fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		to := filepath.Join(s.Dir, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return err
		}
		if filepath.Ext(path) != ".conf" {
			return os.WriteFile(to, text, 0o600)
		}
		t, err := template.New(path).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return err
		}
		out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer out.Close()
		return t.Execute(out, s)
	})
}

// log is the file with the output of a program.
func (s settings) log(name string) string { return filepath.Join(s.Dir, "log", name+".out") }

// file is the path of a file of the rig.
func (s settings) file(name string) string { return filepath.Join(s.Dir, "files", name) }
