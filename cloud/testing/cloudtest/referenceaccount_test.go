package cloudtest_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// all returns what has the class's tags and these, page by page.
func (a *account) all(ctx context.Context, c cloud.Class, kind, name string) iter.Seq2[resource, error] {
	sp := c.Spec.(spec)
	q := url.Values{"cluster": {sp.Tags["cluster"]}, "role": {sp.Tags["role"]}}
	if name != "" && !a.bug("matchesPrefix") {
		q.Set("name", name)
	}
	if a.bug("scansAll") {
		q = url.Values{}
	}
	return func(yield func(resource, error) bool) {
		left := false // of the bug readsOn
		for {
			var page struct {
				Items []resource
				Next  string
			}
			err := a.call(ctx, "list "+kind, http.MethodGet, c, "/"+kind+"?"+q.Encode(), nil, &page)
			if err != nil && a.bug("swallowsPageErrors") && q.Get("after") != "" {
				return
			}
			if err != nil {
				yield(resource{}, err)
				return
			}
			for _, t := range page.Items {
				if name != "" && !strings.HasPrefix(t.Tags["name"], name) {
					continue
				}
				if !left && !yield(t, nil) {
					if left = true; !a.bug("readsOn") {
						return
					}
				}
			}
			if page.Next == "" || a.bug("forgetsPages") {
				return
			}
			q.Set("after", page.Next)
		}
	}
}

// mine returns the resources of that kind that are r's.
func (a *account) mine(ctx context.Context, r cloud.Ref, kind string) ([]resource, error) {
	var mine []resource
	for t, err := range a.all(ctx, r.Class, kind, r.Name) {
		if err != nil {
			return nil, err
		}
		if a.owns(r, t) && t.Word != "TERMINATED" {
			mine = append(mine, t)
		}
	}
	return mine, nil
}

// owns reports whether t was made for r.
func (a *account) owns(r cloud.Ref, t resource) bool {
	sp := r.Class.Spec.(spec)
	if a.bug("ownsEverything") {
		return true
	}
	if t.Tags["cluster"] != sp.Tags["cluster"] || t.Tags["role"] != sp.Tags["role"] {
		return false
	}
	owner := t.Tags["owner"]
	if a.bug("needsOwnerID") {
		return owner == r.OwnerID
	}
	if a.bug("matchesPrefix") && owner == "" && strings.HasPrefix(t.Tags["name"], r.Name) {
		return true
	}
	return owner == "" && t.Tags["name"] == r.Name || owner == r.OwnerID || r.OwnerID == "" || a.bug("ignoresOwnerID")
}

// vms returns the VMs that r may mean.
func (a *account) vms(ctx context.Context, r cloud.Ref) ([]resource, error) {
	if r.ProviderID == "" {
		return a.mine(ctx, r, "vm")
	}
	id, _ := a.d.DecodeProviderID(r.ProviderID)
	var t resource
	err := a.call(ctx, "show VM", http.MethodGet, r.Class, "/vm/"+url.PathEscape(id), nil, &t)
	switch {
	case cloud.CodeOf(err) == cloud.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case !a.owns(r, t) || t.Word == "TERMINATED":
		return nil, nil
	}
	return []resource{t}, nil
}

func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	a.mu.Lock()
	refused := a.refused
	a.mu.Unlock()
	if refused != nil && a.bug("refusesForEver") {
		return cloud.VM{}, refused
	}
	if len(r.UserData) > a.d.Traits().UserDataMax && !a.bug("sendsAnySize") {
		return cloud.VM{}, cloud.Errorf(cloud.Invalid, "check user data", "UserDataTooLarge", "%d bytes", len(r.UserData))
	}
	if wrong := a.d.Traits().Names.Problem(r.Name); wrong != "" && !a.bug("takesAnyName") {
		return cloud.VM{}, cloud.Errorf(cloud.Invalid, "check name", "Name", "name %s", wrong)
	}
	if problems := r.NetworkProblems(r.Class.Spec.(spec).NICs); len(problems) > 0 && !a.bug("takesAnyDevice") {
		return cloud.VM{}, cloud.Worst("check network", problems, cloud.BlocksCreate)
	}
	if a.bug("looksUpOnly") {
		if found, err := a.vms(ctx, r.Ref); err != nil {
			return cloud.VM{}, err
		} else if len(found) > 0 {
			return a.vm(r.Class, found[0]), nil
		}
		r.Token = rand.Text()
	}
	nic, err := a.nic(ctx, r)
	if err != nil {
		return cloud.VM{}, a.remember(err)
	}
	want := a.wanted(r, nic)
	var t resource
	if err := a.call(ctx, "make", http.MethodPost, r.Class, "/vm", want, &t); err != nil {
		return cloud.VM{}, a.remember(err)
	}
	err = a.call(ctx, "initialise", http.MethodPost, r.Class, "/vm/"+t.ID+"/init", nil, &t)
	if err != nil && !a.bug("swallowsErrors") {
		return cloud.VM{}, err
	}
	for a.bug("waits") && t.Word != "RUNNING" && ctx.Err() == nil {
		_ = a.call(ctx, "wait", http.MethodGet, r.Class, "/vm/"+t.ID, nil, &t)
		time.Sleep(10 * time.Millisecond)
	}
	vm := a.vm(r.Class, t)
	if t.Lacks != "" && !a.bug("finishesEarly") {
		vm.RetryAfter = 5 * time.Second
	}
	return vm, nil
}

// remember keeps an error for the bug refusesForEver.
func (a *account) remember(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = err
	return err
}

// wanted is the body of the request for a VM.
func (a *account) wanted(r cloud.CreateRequest, nic string) resource {
	sp := r.Class.Spec.(spec)
	tags := map[string]string{}
	maps.Copy(tags, r.Tags)
	maps.Copy(tags, sp.Tags)
	tags["name"], tags["owner"] = r.Name, r.OwnerID
	if a.bug("changesTags") {
		r.Tags["name"] = r.Name
	}
	t := resource{
		Token: r.Token, VM: nic, Tags: tags, UserData: r.UserData,
		Type: sp.Type, Zone: cmp.Or(r.Zone, sp.Zone), Name: sp.Image, Network: r.Network, Keep: sp.Keep,
		Market: market(sp),
	}
	switch a.d.bug {
	case "ignoresToken":
		t.Token = rand.Text()
	case "tokenInMemory":
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.tokens == nil {
			a.tokens = map[string]string{}
		}
		a.tokens[r.Name] = cmp.Or(a.tokens[r.Name], rand.Text())
		t.Token = a.tokens[r.Name]
	case "trimsUserData":
		t.UserData = bytes.TrimSpace(t.UserData)
	case "encodesUserData":
		t.UserData = []byte(base64.StdEncoding.EncodeToString(r.UserData))
	case "forgetsNetwork":
		t.Network = nil
	case "forgetsImage":
		t.Name = ""
	}
	return t
}

// market is what a VM of a class competes for.
func market(sp spec) string {
	switch {
	case sp.Spot:
		return "spot"
	case sp.Group != "":
		return "group " + sp.Group
	case sp.GPUs > 0:
		return fmt.Sprintf("%d GPUs", sp.GPUs)
	}
	return "regular"
}

// nic makes the interface, under a name that it notes down first. One that has failed is given up.
func (a *account) nic(ctx context.Context, r cloud.CreateRequest) (string, error) {
	name := r.State
	if name == "" {
		name = "nic-" + rand.Text()
		if err := r.Checkpoint(ctx, name); err != nil && !a.bug("ignoresCheckpoint") {
			return "", cloud.Errorf(cloud.Unknown, "note down interface", "Checkpoint", "%w", err)
		}
	}
	var t resource
	err := a.call(ctx, "make", http.MethodPost, r.Class, "/interface", resource{Name: name, Tags: a.wanted(r, "").Tags},
		&t)
	if err == nil && t.Word == "FAILED" && !a.bug("waitsForTheFailed") {
		if err := a.call(ctx, "delete", http.MethodDelete, r.Class, "/interface/"+t.ID, nil, &t); err != nil {
			return "", err
		}
		if err := r.Checkpoint(ctx, ""); err != nil {
			return "", cloud.Errorf(cloud.Unknown, "note down interface", "Checkpoint", "%w", err)
		}
		return "", cloud.Errorf(cloud.Unavailable, "make", "InterfaceFailed", "the interface of %s has failed", r.Name)
	}
	if err == nil && t.Word == "FAILED" {
		return "", cloud.Errorf(cloud.Unavailable, "make", "InterfaceFailed", "the interface of %s has failed", r.Name)
	}
	return t.ID, err
}

// vm is t in the words of the contract.
func (a *account) vm(c cloud.Class, t resource) cloud.VM {
	states := map[string]cloud.State{
		"BUILDING": cloud.StatePending, "": cloud.StatePending, "RUNNING": cloud.StateRunning,
		"STOPPED": cloud.StateStopped, "ERROR": cloud.StateFailed, "DELETING": cloud.StateDeleting,
	}
	vm := cloud.VM{
		ID: t.ID, ProviderID: "reference:///" + c.Region + "/" + t.ID, NodeProviderID: "reference:///" + c.Zone + "/" + t.ID,
		Name: t.Tags["name"], OwnerID: t.Tags["owner"], NodeName: t.Host, State: states[t.Word], Reason: t.Word,
		Region: c.Region, Zone: t.Zone, InstanceType: t.Type, Created: t.Created,
	}
	if t.Lacks != "network" {
		vm.Addresses = []cloud.Address{{Kind: "InternalIP", Value: "10.0.0.1"}, {Kind: "InternalIP", Value: "fd00::1"}}
	}
	if vm.NodeName == "" {
		vm.State = cloud.StatePending
	}
	if a.bug("stoppedRuns") && vm.State == cloud.StateStopped {
		vm.State = cloud.StateRunning
	}
	if a.mu.Lock(); a.bug("shufflesAddresses") {
		if a.turn++; a.turn%2 == 0 {
			slices.Reverse(vm.Addresses)
		}
	}
	a.mu.Unlock()
	return vm
}

func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	found, err := a.vms(ctx, r)
	switch {
	case err != nil:
		return cloud.VM{}, err
	case len(found) == 0:
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, "find VM", "NotFound", "no VM of %s", r.Name)
	case len(found) > 1 && !a.bug("takesTheFirst"):
		return cloud.VM{}, cloud.Errorf(cloud.Unknown, "find VM", "SeveralVMs", "%s and %s are of %s", found[0].ID,
			found[1].ID, r.Name)
	case found[0].Host == "" && a.bug("failsWithoutNodeName"):
		return cloud.VM{}, cloud.Errorf(cloud.Unknown, "find VM", "NoHost", "no host name")
	}
	return a.vm(r.Class, found[0]), nil
}

func (a *account) Delete(ctx context.Context, r cloud.Ref) (cloud.Deletion, error) {
	found, err := a.vms(ctx, r)
	if err != nil {
		return cloud.Deletion{}, err
	}
	if len(found) == 0 && a.bug("missesTheMissing") {
		return cloud.Deletion{}, cloud.Errorf(cloud.NotFound, "find VM", "NotFound", "no VM of %s", r.Name)
	}
	if len(found) > 1 && a.bug("takesTheFirst") {
		found = found[:1]
	}
	if len(found) > 0 {
		if err := a.recordKept(ctx, r, found); err != nil {
			return cloud.Deletion{}, err
		}
	}
	if a.bug("deletesAllDisks") {
		a.disks(ctx, r, found)
	}
	if len(found) == 0 && a.bug("needsVMToDelete") {
		return cloud.Deletion{Done: true}, nil
	}
	for _, kind := range []string{"interface", "disk"} {
		rest, err := a.mine(ctx, r, kind)
		if err != nil {
			return cloud.Deletion{}, err
		}
		rest = slices.DeleteFunc(rest, func(t resource) bool {
			return t.VM != "" || !a.mayGo(r, t) || kind == "interface" && a.bug("leavesInterfaces")
		})
		found = append(found, rest...)
	}
	d := cloud.Deletion{Done: true, Found: len(found) > 0}
	for _, t := range found {
		if t.Word == "DELETING" {
			d.Remaining = append(d.Remaining, "vm "+t.ID)
			continue
		}
		err := a.call(ctx, "delete "+t.Kind, http.MethodDelete, r.Class, "/"+t.Kind+"/"+t.ID, nil, &t)
		if err != nil && cloud.CodeOf(err) != cloud.NotFound {
			return cloud.Deletion{}, err
		}
		if err == nil && t.Kind == "vm" {
			d.Remaining = append(d.Remaining, "vm "+t.ID)
		}
	}
	if len(d.Remaining) > 0 && !a.bug("doneTooEarly") {
		slices.Sort(d.Remaining)
		return cloud.Deletion{RetryAfter: goes, Remaining: d.Remaining}, nil
	}
	return cloud.Deletion{Done: true, Found: d.Found}, nil
}

// disks deletes whatever is attached to found.
func (a *account) disks(ctx context.Context, r cloud.Ref, found []resource) {
	var page struct{ Items []resource }
	_ = a.call(ctx, "list disks", http.MethodGet, r.Class, "/disk?limit=1", nil, &page)
	for _, t := range page.Items {
		if slices.ContainsFunc(found, func(vm resource) bool { return t.VM == vm.ID }) {
			_ = a.call(ctx, "delete disk", http.MethodDelete, r.Class, "/disk/"+t.ID, nil, &t)
		}
	}
}

func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		for _, kind := range []string{"vm", "interface", "disk"} {
			if kind != "vm" && a.bug("listsVMsOnly") {
				return
			}
			if !cloud.Wants(kinds, cloud.Kind(kind)) && !a.bug("listsAllKinds") {
				continue
			}
			for t, err := range a.all(ctx, c, kind, "") {
				r := cloud.Resource{
					Kind: cloud.Kind(t.Kind), ID: t.ID, MachineName: t.Tags["name"], OwnerID: t.Tags["owner"],
					Created: t.Created, Attached: t.VM != "", Retention: a.retention(t), Tags: t.Tags,
				}
				if kind == "vm" && err == nil {
					vm := a.vm(c, t)
					r.VM = &vm
				}
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

func (a *account) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) error {
	found, err := a.vms(ctx, r)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return cloud.Errorf(cloud.NotFound, "find VM", "NotFound", "%d VMs of %s", len(found), r.Name)
	}
	vm := found[0]
	for _, kind := range []string{"interface", "disk"} {
		parts, err := a.mine(ctx, r, kind)
		if err != nil {
			return err
		}
		found = append(found, slices.DeleteFunc(parts, func(t resource) bool { return t.VM != vm.ID })...)
	}
	if a.bug("tagsVMsOnly") {
		found = found[:1]
	}
	for _, t := range found {
		tags := maps.Clone(t.Tags)
		maps.DeleteFunc(tags, func(key, _ string) bool {
			unwanted := slices.Contains(obsolete, key) || a.bug("removesOthersTags")
			return unwanted && !a.bug("keepsObsoleteTags") && (!fixed(key) || a.bug("removesOwnership"))
		})
		maps.Copy(tags, a.d.UserTags(r.Class))
		if err := a.call(ctx, "tag", http.MethodPatch, r.Class, "/"+t.Kind+"/"+t.ID, tags, &t); err != nil {
			return err
		}
	}
	return nil
}

func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	resources := map[string]string{}
	err := a.call(ctx, "look up type", http.MethodGet, c, "/types/"+url.PathEscape(c.InstanceType), nil, &resources)
	if err != nil && !a.bug("guessesCapacity") {
		return cloud.Capacity{}, err
	}
	return cloud.Capacity{Resources: resources, Architecture: "amd64"}, nil
}
