package cloudtest_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
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
	Spot                           bool
	Group                          string // of which the hosts may be full
	GPUs                           int
	Keep                           bool // the disk outlives the VM
	Pools                          []string
	Tags                           map[string]string
}

func (d driver) Traits() cloud.Traits {
	keys := cloud.SecretKeys{Credential: []string{"key", "apiKey"}}
	if d.bug == "declaresOneSpelling" {
		keys.Credential = keys.Credential[:1]
	}
	return cloud.Traits{
		Name: "reference", UserDataMax: 16 << 10, Names: cloud.NameLimits{Max: 63, Chars: "a-z0-9-", First: "a-z"},
		Settle: 30 * time.Second, StaticAddresses: true, Reboots: true, Consoles: true,
		StickyKeys: d.bug != "hidesStickyKeys", Secret: keys,
	}
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
		known := []string{"url", "region", "zone", "type", "image", "nics", "spot", "group", "gpus", "keep", "pools", "tags"}
		if !slices.Contains(known, strings.ToLower(name)) {
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

func (d driver) Interruptible(c cloud.Class) bool {
	return c.Spec.(spec).Spot && d.bug != "hidesSpot"
}

func (d driver) UserTags(c cloud.Class) map[string]string {
	user := maps.Clone(c.Spec.(spec).Tags)
	maps.DeleteFunc(user, func(key, _ string) bool { return fixed(key) })
	return user
}

// fixed reports whether a tag tells whose a resource is.
func fixed(key string) bool {
	return slices.Contains([]string{"cluster", "role", "name", "owner"}, key) || strings.HasPrefix(key, cloud.TagPrefix)
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
	a := &account{d: d, key: strings.TrimSpace(cmp.Or(string(creds["key"]), string(creds["apiKey"]))), creds: creds}
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
	refused error // of the bug refusesForEver
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
	if a.bug("repeatsLost") && cloud.CodeOf(err) == cloud.Unavailable {
		err = a.send(ctx, op, method, base+path, session, in, out)
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
	var said struct {
		Code string
		Name string
		Of   *cloud.Offering
	}
	_ = json.Unmarshal(answer, &said)
	e := cloud.Errorf(cloud.Unknown, op, cmp.Or(said.Code, "Status"+fmt.Sprint(resp.StatusCode)),
		"the cloud answers %d %s", resp.StatusCode, said.Code)
	if a.bug("echoesAnswers") {
		e.Err = fmt.Errorf("%s", answer)
	}
	if a.bug("secretInError") {
		e.Err = fmt.Errorf("%w with key %s", e.Err, a.key)
	}
	switch {
	case a.bug("knowsNoCodes"):
	case said.Code == "NameTaken":
		e.Code = cloud.Unavailable
		if a.bug("namesNoName") {
			break
		}
		e.Err = fmt.Errorf("%w: %s is taken", e.Err, said.Name)
	case said.Code == "NoCapacity":
		e.Code = cloud.Exhausted
		if !a.bug("namesNoOffering") {
			e.Offering = cmp.Or(said.Of, &cloud.Offering{Region: "r1", Zone: "z1", InstanceType: "small"})
			if a.bug("forgetsScope") {
				e.Offering.CapacityType = ""
			}
		}
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
