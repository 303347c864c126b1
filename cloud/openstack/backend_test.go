package openstack_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/openstack"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	rig "github.com/capmcm/cluster-api-provider-mcm/test/openstack"
)

// backend is a project as cloudtest sees it.
type backend struct{ *rig.Project }

var (
	birthmark   = regexp.MustCompile(` owner=(\S*)`)
	addressMark = regexp.MustCompile(` owner=(\S*) machine=(\S*)`)
)

func (b backend) ledger(t testing.TB) []cloud.Resource {
	t.Helper()
	var all []cloud.Resource
	for _, s := range b.Servers(t) {
		all = append(all, cloud.Resource{
			Kind: cloud.KindVM, ID: s.ID, MachineName: s.Name, OwnerID: s.Metadata[ownerKey], Tags: s.Metadata,
		})
	}
	for _, p := range b.Ports(t) {
		r := cloud.Resource{Kind: cloud.KindInterface, ID: p.ID, MachineName: p.Name}
		if m := birthmark.FindStringSubmatch(p.Description); m != nil {
			r.OwnerID = m[1]
		}
		all = append(all, r)
	}
	for _, a := range b.FloatingIPs(t) {
		r := cloud.Resource{Kind: cloud.KindAddress, ID: a.ID}
		if m := addressMark.FindStringSubmatch(a.Description); m != nil {
			r.OwnerID, r.MachineName = m[1], m[2]
		}
		all = append(all, r)
	}
	for _, v := range b.Volumes(t) {
		all = append(all, cloud.Resource{
			Kind: cloud.KindDisk, ID: v.ID, MachineName: v.Name, OwnerID: v.Metadata[ownerKey], Tags: v.Metadata,
		})
	}
	return all
}

func (b backend) seed(t testing.TB, s cloudtest.Seed) string {
	t.Helper()
	metadata := map[string]string{}
	var keys []string
	if !s.Untagged {
		keys = strings.Fields(s.Class.Owner)[1:]
		for _, key := range keys {
			metadata[key] = "1"
		}
		if s.OwnerID != "" {
			metadata[ownerKey] = s.OwnerID
		}
	}
	if s.Name == "" {
		s.Name = "somebody's"
	}
	switch s.Kind {
	case cloud.KindVM:
		return b.AddServer(t, strings.ReplaceAll(s.Name, "'", "-"), metadata, time.Now().Add(-s.Age))
	case cloud.KindDisk:
		id := b.AddVolume(t, rig.Volume{
			Name: s.Name, Status: "available", Size: 1, Metadata: metadata,
			Created: time.Now().Add(-s.Age),
		})
		if s.AttachTo != "" {
			b.AttachVolume(t, s.AttachTo, id)
		}
		return id
	case cloud.KindInterface:
		description := ""
		if !s.Untagged {
			description = openstack.PortMark(keys, s.OwnerID)
		}
		return b.AddPort(t, s.Name, description, keys)
	case cloud.KindAddress:
		description := ""
		if !s.Untagged {
			description = openstack.AddressMark(keys, s.OwnerID, s.Name)
		}
		return b.AddFloatingIP(t, description, keys)
	case cloud.KindKey:
	}
	t.Fatalf("there is no %s here", s.Kind)
	return ""
}

func (b backend) userData(t testing.TB, id string) []byte {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(b.Server(t, id).UserData)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// boot counts what has started a server, after its creation.
func (b backend) boot(t testing.TB, id string) string {
	t.Helper()
	n := b.Actions(t, id)
	return fmt.Sprint(n["reboot"] + n["start"])
}

// console is what the hypervisor says that the guest has written. Nova's double of one has no guest
// that could write more.
func (b backend) console(t testing.TB, id, _ string) string {
	t.Helper()
	return b.Console(t, id)
}

func (b backend) states() []cloudtest.VMState {
	state := func(name, action string, want cloud.State) cloudtest.VMState {
		return cloudtest.VMState{Name: name, Want: want, Set: func(t testing.TB, id string) {
			b.Act(t, id, map[string]any{action: nil}, name)
		}}
	}
	return []cloudtest.VMState{
		state("SHUTOFF", "os-stop", cloud.StateStopped), state("PAUSED", "pause", cloud.StateStopped),
		state("SUSPENDED", "suspend", cloud.StateStopped),
		{Name: "ERROR", Want: cloud.StateFailed, Set: func(t testing.TB, id string) {
			b.Act(t, id, map[string]any{"os-resetState": map[string]any{"state": "error"}}, "ERROR")
		}},
		{Name: "gone", Want: cloud.StateUnknown, Set: func(t testing.TB, id string) { b.Act(t, id, nil, "") }},
	}
}
