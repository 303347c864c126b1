package cloudtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// guard is an Account under watch: whatever a case is about, every call has to
// keep the rules of every call.
type guard struct {
	k       *kit
	next    cloud.Account
	secrets []string // that no text may show
}

// account opens an account as a new process would: by a new driver.
func (k *kit) account() *guard {
	k.Helper()
	a, err := k.open(k.f.Credentials)
	if err != nil {
		k.Fatalf("open: %v", err)
	}
	return a
}

// open opens an account with these credentials. It is closed with the test.
func (k *kit) open(creds cloud.Credentials) (*guard, error) {
	k.Helper()
	return k.openFor(k.f.Class, creds)
}

// openFor is open for another class than that of the fixture.
func (k *kit) openFor(in cloud.ClassInput, creds cloud.Credentials) (*guard, error) {
	k.Helper()
	d := k.f.Driver()
	class := k.parse(d, in)
	given := copyCredentials(creds)
	ctx, cancel := context.WithTimeout(k.Context(), 2*k.h.Prompt)
	defer cancel()
	g := &guard{k: k, secrets: forbidden(creds, k.f.Public)}
	a, err := d.Open(ctx, class, given)
	if !reflect.DeepEqual(given, creds) {
		k.Error("Open changes the credentials")
	}
	for _, v := range given {
		clear(v) // what is kept is now wrong
	}
	clear(given)
	if err != nil {
		g.checkError("open", err)
		return nil, err
	}
	info := cloud.AccountInfo{Driver: d.Traits(), Endpoint: class.Endpoint, Redactor: cloud.RedactorOf(d, creds)}
	for _, wrap := range k.f.Wrap {
		a = wrap(info, a)
	}
	g.next = a
	k.Cleanup(func() { _ = g.Close() })
	return g, nil
}

// Close closes the account if it can be closed.
func (g *guard) Close() error {
	if c, ok := g.next.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// promptly calls f with a context that ends it if it waits.
func (g *guard) promptly(ctx context.Context, op string, f func(ctx context.Context)) {
	g.k.Helper()
	ctx, cancel := context.WithTimeout(ctx, g.k.h.Prompt)
	defer cancel()
	start := time.Now()
	f(ctx)
	if took := time.Since(start); took >= g.k.h.Prompt {
		g.k.Errorf("%s took %v: no call waits for a VM to change state", op, took.Round(time.Millisecond))
	}
}

// Create calls Create and checks what holds for every one.
func (g *guard) Create(ctx context.Context, r cloud.CreateRequest) (vm cloud.VM, err error) {
	g.k.Helper()
	given := r
	given.UserData, given.Tags, given.Network = bytes.Clone(r.UserData), maps.Clone(r.Tags), copyNetwork(r.Network)
	g.promptly(ctx, "create", func(ctx context.Context) { vm, err = g.next.Create(ctx, given) })
	if !bytes.Equal(given.UserData, r.UserData) || !maps.Equal(given.Tags, r.Tags) ||
		!reflect.DeepEqual(given.Network, r.Network) {
		g.k.Error("create changes its arguments")
	}
	for i := range given.UserData {
		given.UserData[i] = 'X' // what is kept is now wrong
	}
	clear(given.Tags)
	for _, n := range given.Network {
		clear(n.Addresses)
	}
	if err != nil {
		g.checkError("create", err, textOf(r.UserData)...)
		return vm, err
	}
	g.checkVM("create", vm)
	return vm, nil
}

// Get calls Get and checks what holds for every one.
func (g *guard) Get(ctx context.Context, r cloud.Ref) (vm cloud.VM, err error) {
	g.k.Helper()
	g.promptly(ctx, "get", func(ctx context.Context) { vm, err = g.next.Get(ctx, r) })
	if err != nil {
		g.checkError("get", err)
		return vm, err
	}
	g.checkVM("get", vm)
	return vm, nil
}

// Delete calls Delete and checks what holds for every one.
func (g *guard) Delete(ctx context.Context, r cloud.Ref) (d cloud.Deletion, err error) {
	g.k.Helper()
	g.promptly(ctx, "delete", func(ctx context.Context) { d, err = g.next.Delete(ctx, r) })
	switch {
	case err != nil:
		g.checkError("delete", err)
	case d.Done && (d.RetryAfter != 0 || len(d.Remaining) != 0):
		g.k.Errorf("delete is done, and yet says %+v", d)
	case !d.Done && (d.RetryAfter <= 0 || len(d.Remaining) == 0 || !slices.IsSorted(d.Remaining)):
		g.k.Errorf("delete is not done: want RetryAfter > 0 and what remains, sorted; got %+v", d)
	}
	return d, err
}

// Capacity calls Capacity and checks what holds for every one.
func (g *guard) Capacity(ctx context.Context, c cloud.Class) (cp cloud.Capacity, err error) {
	g.k.Helper()
	g.promptly(ctx, "capacity", func(ctx context.Context) { cp, err = g.next.Capacity(ctx, c) })
	if err != nil {
		g.checkError("capacity", err)
	}
	return cp, err
}

// Reboot calls Reboot and checks what holds for every one.
func (g *guard) Reboot(ctx context.Context, r cloud.Ref) error {
	g.k.Helper()
	return g.optional(ctx, "reboot", func(ctx context.Context) error { return cloud.Reboot(ctx, g.next, r) })
}

// Console calls Console and checks what holds for every one.
func (g *guard) Console(ctx context.Context, r cloud.Ref) (text string, err error) {
	g.k.Helper()
	err = g.optional(ctx, "console", func(ctx context.Context) error {
		text, err = cloud.Console(ctx, g.next, r)
		return err
	})
	if tail := cloud.ConsoleTail(text); text != tail || err != nil && text != "" {
		g.k.Errorf("console: got %d bytes and %v, want what ConsoleTail returns, %d bytes, or an error", len(text), err,
			len(tail))
	}
	return text, err
}

// RemoveBootData calls RemoveBootData and checks what holds for every one.
func (g *guard) RemoveBootData(ctx context.Context, r cloud.Ref) error {
	g.k.Helper()
	return g.optional(ctx, "remove boot data", func(ctx context.Context) error {
		return cloud.RemoveBootData(ctx, g.next, r)
	})
}

// optional makes a call of an optional interface and checks what holds for every one.
func (g *guard) optional(ctx context.Context, op string, call func(context.Context) error) (err error) {
	g.k.Helper()
	g.promptly(ctx, op, func(ctx context.Context) { err = call(ctx) })
	if err != nil {
		g.checkError(op, err)
	}
	return err
}

// List yields what List yields and checks what holds for every one.
func (g *guard) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		failed := false
		for r, err := range g.next.List(ctx, c, kinds...) {
			if failed {
				g.k.Error("list goes on after an error")
				return
			}
			if err != nil {
				failed = true
				g.checkError("list", err)
			} else {
				g.checkResource(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// codes are the codes that each call may return, as package cloud says.
func codes(op string) []cloud.Code {
	all := []cloud.Code{cloud.Denied, cloud.Throttled, cloud.Unavailable}
	switch op {
	case "open":
		return append(all, cloud.Invalid)
	case "create":
		return append(all, cloud.Invalid, cloud.Exhausted, cloud.TokenUsed, cloud.Unknown)
	case "get":
		return append(all, cloud.NotFound, cloud.Unknown)
	case "tags":
		return append(all, cloud.NotFound, cloud.Invalid, cloud.Unknown)
	case "register":
		return append(all, cloud.NotFound, cloud.Invalid, cloud.Exhausted, cloud.Unknown)
	case "deregister":
		return append(all, cloud.Invalid, cloud.Unknown)
	case "reboot":
		return append(all, cloud.NotFound, cloud.Invalid, cloud.Exhausted, cloud.Unknown)
	case "console":
		return append(all, cloud.NotFound, cloud.Invalid, cloud.Unknown)
	case "capacity":
		return append(all, cloud.Invalid, cloud.Unknown)
	}
	return append(all, cloud.Unknown)
}

// checkError checks what holds for every error. The texts in also are secrets
// of this call.
func (g *guard) checkError(op string, err error, also ...string) {
	g.k.Helper()
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || error(e) != err { //nolint:errorlint // itself, not one that wraps it
		g.k.Errorf("%s returns a %T, want a *cloud.Error", op, err)
		return
	}
	if e.Err == nil || e.Op == "" {
		g.k.Errorf("%s: an Error has an Op and a cause, got Op %q, Err %v", op, e.Op, e.Err)
		return
	}
	if !slices.Contains(codes(op), e.Code) {
		g.k.Errorf("%s returns %v, which is none of its codes: %v", op, e.Code, err)
	}
	if e.RetryAfter < 0 || (e.Offering != nil && e.Code != cloud.Exhausted) ||
		(len(e.Problems) > 0 && e.Code != cloud.Invalid) {
		g.k.Errorf("%s: RetryAfter %v, Offering %v and Problems %v do not go with %v", op, e.RetryAfter, e.Offering,
			e.Problems, e.Code)
	}
	g.checkText(op, fmt.Sprintf("%v %s %+v", err, e.Reason, e.Problems), also...)
}

// checkText fails when a secret is in text. It does not show it.
func (g *guard) checkText(op, text string, also ...string) {
	g.k.Helper()
	for _, s := range append(also, g.secrets...) {
		if strings.Contains(text, s) {
			g.k.Errorf("%s shows a secret: %s", op, strings.ReplaceAll(text, s, "<secret>"))
		}
	}
}

// checkVM checks what holds for every VM.
func (g *guard) checkVM(op string, vm cloud.VM) {
	g.k.Helper()
	unfinished := vm.RetryAfter > 0
	if vm.ID == "" && (vm.ProviderID != "" || !unfinished) {
		g.k.Errorf("%s: a VM without ID", op)
	}
	if vm.ProviderID == "" && !unfinished {
		g.k.Errorf("%s: VM %s has no ProviderID, and nothing more is to be done about it", op, vm.ID)
	}
	if vm.State > cloud.StateFailed || vm.RetryAfter < 0 {
		g.k.Errorf("%s: no such state %d or wait %v", op, vm.State, vm.RetryAfter)
	}
	kinds := []string{"InternalIP", "ExternalIP", "InternalDNS", "ExternalDNS", "Hostname"}
	for _, a := range vm.Addresses {
		if !slices.Contains(kinds, a.Kind) || a.Value == "" {
			g.k.Errorf("%s: no such address: %+v", op, a)
		}
	}
}

// checkResource checks what holds for everything that is listed.
func (g *guard) checkResource(r cloud.Resource) {
	g.k.Helper()
	if r.ID == "" || r.Kind == "" || (r.VM != nil) != (r.Kind == cloud.KindVM) {
		g.k.Errorf("list: want ID, Kind, and VM for a vm only; got %+v", r)
	}
	if r.VM != nil {
		g.checkVM("list", *r.VM)
	}
}

// shortestSecret is as long as the secrets are that AccountInfo names.
const shortestSecret = 6

// longestFirst are the values of creds as AccountInfo has them.
func longestFirst(creds cloud.Credentials) []string {
	var values []string
	for _, v := range creds {
		if len(v) >= shortestSecret {
			values = append(values, string(v))
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	return values
}

// forbidden are the forms in which the values of creds may not appear, except
// those of the keys in public.
func forbidden(creds cloud.Credentials, public []string) []string {
	creds = maps.Clone(creds)
	for _, key := range public {
		delete(creds, key)
	}
	var all []string
	for _, v := range longestFirst(creds) {
		all = append(all, textOf([]byte(v))...)
	}
	return all
}

// textOf are the forms in which a secret gets into texts.
func textOf(secret []byte) []string {
	if len(secret) < shortestSecret {
		return nil
	}
	return []string{
		string(secret), url.QueryEscape(string(secret)), url.PathEscape(string(secret)),
		base64.StdEncoding.EncodeToString(secret), base64.URLEncoding.EncodeToString(secret),
		strings.TrimRight(base64.StdEncoding.EncodeToString(secret), "="),
	}
}

func copyCredentials(creds cloud.Credentials) cloud.Credentials {
	c := make(cloud.Credentials, len(creds))
	for k, v := range creds {
		c[k] = bytes.Clone(v)
	}
	return c
}

func copyInput(in cloud.ClassInput) cloud.ClassInput {
	in.Spec = json.RawMessage(bytes.Clone(in.Spec))
	in.Labels, in.Annotations = maps.Clone(in.Labels), maps.Clone(in.Annotations)
	return in
}

func sameInput(a, b cloud.ClassInput) bool {
	return bytes.Equal(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}
