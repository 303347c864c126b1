package cloudtest_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// driver is the smallest driver that keeps the contract. bug switches one rule
// off, to see the kit notice.
type driver struct {
	transport http.RoundTripper
	bug       string
}

// spec is the provider spec.
type spec struct {
	URL, Region, Zone, Type, Image string
	NICs                           int
	Tags                           map[string]string
}

func (d driver) Traits() cloud.Traits {
	return cloud.Traits{Name: "reference", UserDataMax: 16 << 10, NameMax: 63, Settle: 30 * time.Second}
}

func (d driver) Parse(in cloud.ClassInput) (cloud.Class, []cloud.Problem) {
	c := cloud.Class{Name: in.Name, Namespace: in.Namespace}
	var problems []cloud.Problem
	say := func(s cloud.Severity, field, message string) {
		problems = append(problems, cloud.Problem{Severity: s, Field: "providerSpec" + field, Message: message})
	}
	var sp spec
	var fields map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(in.Spec, &sp), json.Unmarshal(in.Spec, &fields)); err != nil {
		if d.bug != "acceptsJunk" {
			say(cloud.BlocksAll, "", "is no object")
		}
		return c, problems
	}
	for name := range fields {
		if !slices.Contains([]string{"url", "region", "zone", "type", "image", "nics", "tags"}, strings.ToLower(name)) {
			if d.bug == "rejectsUnknownFields" {
				say(cloud.BlocksCreate, "."+name, "is unknown, remove it")
			}
			say(cloud.Warning, "."+name, "is unknown and ignored")
		}
		if d.bug == "mindsKeyCase" && name != strings.ToLower(name) {
			sp = spec{}
		}
	}
	if sp.NICs = cmp.Or(sp.NICs, 1); d.bug == "otherDefault" && fields["nics"] == nil {
		sp.NICs = 2
	}
	if sp.URL == "" {
		say(cloud.BlocksAll, ".url", "is required")
	}
	if sp.Image == "" && d.bug != "acceptsAnything" {
		say(cloud.BlocksCreate, ".image", "is required")
	}
	if d.bug == "rejectsMore" && sp.NICs > 1 {
		say(cloud.BlocksCreate, ".nics", "may not exceed 1")
	}
	slices.SortFunc(problems, func(a, b cloud.Problem) int { return strings.Compare(a.Field, b.Field) })
	c.Endpoint, c.Region, c.Zone, c.InstanceType, c.Spec = sp.URL, sp.Region, sp.Zone, sp.Type, sp
	c.Owner = sp.Tags["cluster"] + "/" + sp.Tags["role"]
	return c, problems
}

func (d driver) CheckSecret(_ cloud.Class, creds cloud.Credentials) []cloud.Problem {
	if len(creds["key"]) == 0 && (len(creds["apiKey"]) == 0 || d.bug == "knowsOneSpelling") {
		return []cloud.Problem{{Severity: cloud.BlocksAll, Field: "key", Message: "is required"}}
	}
	if d.bug == "needsUserData" && len(creds["userData"]) == 0 {
		return []cloud.Problem{{Severity: cloud.BlocksAll, Field: "userData", Message: "is required"}}
	}
	return nil
}

func (d driver) DecodeProviderID(id string) (string, bool) {
	rest, ok := strings.CutPrefix(id, "reference:///")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 2 || d.bug == "knowsOneForm" && strings.HasPrefix(rest, "z") {
		return "", false
	}
	return parts[1], true
}

func (d driver) VolumeID(v cloud.Volume) (string, bool) {
	if v.Driver == "csi.reference.example" || d.bug == "takesAnyVolume" {
		return v.Handle, v.Handle != ""
	}
	return "", false
}

func (d driver) Open(_ context.Context, _ cloud.Class, creds cloud.Credentials) (cloud.Account, error) {
	a := &account{d: d, key: strings.TrimSpace(string(cmp.Or(string(creds["key"]), string(creds["apiKey"])))), creds: creds}
	if d.bug != "keepsCredentials" {
		a.creds = nil
	}
	if d.bug == "leaksGoroutine" {
		go func() { select {} }()
	}
	return a, nil
}

// account is one set of credentials.
type account struct {
	d     driver
	key   string
	creds cloud.Credentials // of the bug keepsCredentials

	mu      sync.Mutex
	session string
	tokens  map[string]string // of the bug tokenInMemory
	turn    int
	closed  bool
}

func (a *account) Close() error {
	if a.d.bug == "closesOnce" && a.closed {
		return errors.New("closed twice")
	}
	a.closed = true
	return nil
}

func (a *account) bug(name string) bool { return a.d.bug == name }

// login returns a session other than old.
func (a *account) login(ctx context.Context, base, old string) (string, error) {
	if !a.bug("loginStorm") {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.session != old {
			return a.session, nil
		}
	}
	if a.bug("neverLogsInAgain") && old != "" {
		return old, nil
	}
	key := a.key
	if a.creds != nil {
		key = string(a.creds["key"])
	}
	var out struct{ Session string }
	if err := a.send(ctx, "log in", http.MethodPost, base+"/login", "", map[string]string{"key": key}, &out); err != nil {
		return "", err
	}
	if a.bug("loginStorm") {
		a.mu.Lock()
		defer a.mu.Unlock()
	}
	a.session = out.Session
	return out.Session, nil
}

// call makes one request in a session.
func (a *account) call(ctx context.Context, op, method string, c cloud.Class, path string, in, out any) error {
	base := c.Spec.(spec).URL
	a.mu.Lock()
	session := a.session
	a.mu.Unlock()
	var err error
	if session == "" {
		if session, err = a.login(ctx, base, ""); err != nil {
			return err
		}
	}
	tries := 1
	if a.bug("retriesThrottled") {
		tries = 10
	}
	for range tries {
		if err = a.send(ctx, op, method, base+path, session, in, out); cloud.CodeOf(err) != cloud.Throttled {
			break
		}
	}
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason == "SessionExpired" {
		if session, err = a.login(ctx, base, session); err == nil {
			err = a.send(ctx, op, method, base+path, session, in, out)
		}
		if a.bug("loginLoop") {
			for range 20 {
				_, _ = a.login(ctx, base, session)
			}
		}
	}
	return err
}

// send makes one request.
func (a *account) send(ctx context.Context, op, method, target, session string, in, out any) error {
	if a.bug("ignoresContext") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 1500*time.Millisecond)
		defer cancel()
	}
	body, err := json.Marshal(in)
	if err != nil {
		return cloud.Errorf(cloud.Unknown, op, "Encode", "encode request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return cloud.Errorf(cloud.Unknown, op, "BadURL", "make request: %w", err)
	}
	r.Header.Set("Session", session)
	resp, err := (&http.Client{Transport: a.d.transport}).Do(r)
	if err != nil {
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "%w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return cloud.Errorf(cloud.Unavailable, op, "NoAnswer", "read answer: %w", err)
	}
	if resp.StatusCode >= 300 {
		return a.classify(op, resp, answer)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return cloud.Errorf(cloud.Unavailable, op, "BadAnswer", "decode answer: %w", err)
	}
	return nil
}

// classify turns an answer into an error. It does not repeat what the cloud says.
func (a *account) classify(op string, resp *http.Response, answer []byte) error {
	var said struct{ Code string }
	_ = json.Unmarshal(answer, &said)
	e := cloud.Errorf(cloud.Unknown, op, cmp.Or(said.Code, "Status"+fmt.Sprint(resp.StatusCode)), "the cloud answers %d %s", resp.StatusCode, said.Code)
	if a.bug("echoesAnswers") {
		e.Err = fmt.Errorf("%s", answer)
	}
	if a.bug("secretInError") {
		e.Err = fmt.Errorf("%w with key %s", e.Err, a.key)
	}
	switch {
	case a.bug("knowsNoCodes"):
	case said.Code == "NoCapacity":
		e.Code, e.Offering = cloud.Exhausted, &cloud.Offering{Region: "r1", Zone: "z1", InstanceType: "small"}
	case resp.StatusCode == http.StatusUnauthorized:
		e.Code = cloud.Denied
	case resp.StatusCode == http.StatusNotFound && op != "make":
		e.Code = cloud.NotFound
	case resp.StatusCode == http.StatusTooManyRequests:
		e.Code = cloud.Throttled
		e.RetryAfter, _ = time.ParseDuration(resp.Header.Get("Retry-After") + "s")
	case resp.StatusCode >= 500:
		e.Code = cloud.Unavailable
	case resp.StatusCode == http.StatusBadRequest && (op == "make" || op == "look up type"):
		e.Code = cloud.Invalid
	}
	return e
}

// all returns what has the class's tags and these, page by page.
func (a *account) all(ctx context.Context, c cloud.Class, kind, name string) iter.Seq2[thing, error] {
	sp := c.Spec.(spec)
	q := url.Values{"cluster": {sp.Tags["cluster"]}, "role": {sp.Tags["role"]}}
	if name != "" && !a.bug("matchesPrefix") {
		q.Set("name", name)
	}
	return func(yield func(thing, error) bool) {
		left := false // of the bug readsOn
		for {
			var page struct {
				Items []thing
				Next  string
			}
			err := a.call(ctx, "list "+kind, http.MethodGet, c, "/"+kind+"?"+q.Encode(), nil, &page)
			if err != nil && a.bug("swallowsPageErrors") && q.Get("after") != "" {
				return
			}
			if err != nil {
				yield(thing{}, err)
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

// mine returns the things of that kind that are r's.
func (a *account) mine(ctx context.Context, r cloud.Ref, kind string) ([]thing, error) {
	var mine []thing
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

// owns says whether t was made for r.
func (a *account) owns(r cloud.Ref, t thing) bool {
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
func (a *account) vms(ctx context.Context, r cloud.Ref) ([]thing, error) {
	if r.ProviderID == "" {
		return a.mine(ctx, r, "vm")
	}
	id, _ := a.d.DecodeProviderID(r.ProviderID)
	var t thing
	err := a.call(ctx, "show VM", http.MethodGet, r.Class, "/vm/"+url.PathEscape(id), nil, &t)
	switch {
	case cloud.CodeOf(err) == cloud.NotFound:
		return nil, nil
	case err != nil:
		return nil, err
	case !a.owns(r, t) || t.Word == "TERMINATED":
		return nil, nil
	}
	return []thing{t}, nil
}

func (a *account) Create(ctx context.Context, r cloud.CreateRequest) (cloud.VM, error) {
	if len(r.UserData) > a.d.Traits().UserDataMax && !a.bug("sendsAnySize") {
		return cloud.VM{}, cloud.Errorf(cloud.Invalid, "check user data", "UserDataTooLarge", "%d bytes", len(r.UserData))
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
		return cloud.VM{}, err
	}
	want := a.wanted(r, nic)
	var t thing
	if err := a.call(ctx, "make", http.MethodPost, r.Class, "/vm", want, &t); err != nil {
		return cloud.VM{}, err
	}
	err = a.call(ctx, "initialise", http.MethodPost, r.Class, "/vm/"+t.ID+"/init", nil, &t)
	if err != nil && !a.bug("swallowsErrors") {
		return cloud.VM{}, err
	}
	for a.bug("waits") && t.Word != "RUNNING" && ctx.Err() == nil {
		_ = a.call(ctx, "wait", http.MethodGet, r.Class, "/vm/"+t.ID, nil, &t)
		time.Sleep(10 * time.Millisecond)
	}
	return a.vm(r.Class, t), nil
}

// wanted is the body of the request for a VM.
func (a *account) wanted(r cloud.CreateRequest, nic string) thing {
	sp := r.Class.Spec.(spec)
	tags := map[string]string{}
	for k, v := range r.Tags {
		tags[k] = v
	}
	for k, v := range sp.Tags {
		tags[k] = v
	}
	tags["name"], tags["owner"] = r.Name, r.OwnerID
	if a.bug("changesTags") {
		r.Tags["name"] = r.Name
	}
	t := thing{
		Token: r.Token, VM: nic, Tags: tags, UserData: r.UserData,
		Type: sp.Type, Zone: cmp.Or(r.Zone, sp.Zone), Name: sp.Image,
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
	case "forgetsImage":
		t.Name = ""
	}
	return t
}

// nic makes the interface, under a name that it notes down first.
func (a *account) nic(ctx context.Context, r cloud.CreateRequest) (string, error) {
	name := r.State
	if name == "" {
		name = "nic-" + rand.Text()
		if err := r.Checkpoint(ctx, name); err != nil && !a.bug("ignoresCheckpoint") {
			return "", cloud.Errorf(cloud.Unknown, "note down interface", "Checkpoint", "%w", err)
		}
	}
	var t thing
	err := a.call(ctx, "make", http.MethodPost, r.Class, "/interface", thing{Name: name, Tags: a.wanted(r, "").Tags}, &t)
	return t.ID, err
}

// vm is t in the words of the contract.
func (a *account) vm(c cloud.Class, t thing) cloud.VM {
	states := map[string]cloud.State{
		"BUILDING": cloud.StatePending, "": cloud.StatePending, "RUNNING": cloud.StateRunning,
		"STOPPED": cloud.StateStopped, "ERROR": cloud.StateFailed, "DELETING": cloud.StateDeleting,
	}
	vm := cloud.VM{
		ID: t.ID, ProviderID: "reference:///" + c.Region + "/" + t.ID, NodeProviderID: "reference:///" + c.Zone + "/" + t.ID,
		Name: t.Tags["name"], OwnerID: t.Tags["owner"], NodeName: t.Host, State: states[t.Word], Reason: t.Word,
		Region: c.Region, Zone: t.Zone, InstanceType: t.Type, Created: t.Created,
		Addresses: []cloud.Address{{Kind: "InternalIP", Value: "10.0.0.1"}, {Kind: "InternalIP", Value: "fd00::1"}},
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
		return cloud.VM{}, cloud.Errorf(cloud.Unknown, "find VM", "SeveralVMs", "%s and %s are of %s", found[0].ID, found[1].ID, r.Name)
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
		rest = slices.DeleteFunc(rest, func(t thing) bool { return t.VM != "" || kind == "interface" && a.bug("leavesInterfaces") })
		found = append(found, rest...)
	}
	d := cloud.Deletion{Done: true}
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
	return cloud.Deletion{Done: true}, nil
}

// disks deletes whatever is attached to found.
func (a *account) disks(ctx context.Context, r cloud.Ref, found []thing) {
	var page struct{ Items []thing }
	_ = a.call(ctx, "list disks", http.MethodGet, r.Class, "/disk?limit=1", nil, &page)
	for _, t := range page.Items {
		if slices.ContainsFunc(found, func(vm thing) bool { return t.VM == vm.ID }) {
			_ = a.call(ctx, "delete disk", http.MethodDelete, r.Class, "/disk/"+t.ID, nil, &t)
		}
	}
}

func (a *account) List(ctx context.Context, c cloud.Class) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		for _, kind := range []string{"vm", "interface", "disk"} {
			if kind != "vm" && a.bug("listsVMsOnly") {
				return
			}
			for t, err := range a.all(ctx, c, kind, "") {
				r := cloud.Resource{
					Kind: cloud.Kind(t.Kind), ID: t.ID, MachineName: t.Tags["name"], OwnerID: t.Tags["owner"],
					Created: t.Created, Attached: t.VM != "", Tags: t.Tags,
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

func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	resources := map[string]string{}
	err := a.call(ctx, "look up type", http.MethodGet, c, "/types/"+url.PathEscape(c.InstanceType), nil, &resources)
	if err != nil && !a.bug("guessesCapacity") {
		return cloud.Capacity{}, err
	}
	return cloud.Capacity{Resources: resources, Architecture: "amd64"}, nil
}
