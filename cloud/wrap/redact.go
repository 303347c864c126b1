package wrap

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"iter"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// PanicReport is told where a driver panicked. The stack has no values in it.
type PanicReport func(driver, op string, stack []byte)

const (
	mask         = "[redacted]"
	shortest     = 6  // bytes of a secret that is looked for; less would hide ordinary words
	shortestWord = 16 // bytes of a word of user data that is looked for on its own
)

// Redact returns errors whose text is free of the account's secrets and of the
// user data, also where they are encoded in base64 or for URLs, and whose Code,
// Reason and chain are what they were. Whatever else a driver returns becomes a
// *cloud.Error of code Unknown, and so does a panic.
func Redact(report PanicReport) cloud.Middleware {
	return func(info cloud.AccountInfo, next cloud.Account) cloud.Account {
		return &redactor{
			layer: layer{next}, driver: info.Driver.Name, report: report,
			clean: replacer(withLines(info.Secrets)),
		}
	}
}

type redactor struct {
	layer
	driver string
	report PanicReport
	clean  *strings.Replacer
}

// Mask returns what masks secrets that are known, in all forms that Redact looks for.
func Mask(secrets []string) *strings.Replacer { return replacer(withLines(secrets)) }

// replacer masks all forms of secrets, the longest first.
func replacer(secrets []string) *strings.Replacer {
	var forms []string
	for _, s := range secrets {
		if len(s) < shortest {
			continue
		}
		b := []byte(s)
		quoted, _ := json.Marshal(s) // never fails for a string
		forms = append(
			forms, s, strings.TrimSpace(s), url.QueryEscape(s), url.PathEscape(s),
			strings.Trim(string(quoted), `"`), strings.Trim(strconv.Quote(s), `"`),
			base64.StdEncoding.EncodeToString(b), base64.RawStdEncoding.EncodeToString(b),
			base64.URLEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b),
			url.QueryEscape(base64.StdEncoding.EncodeToString(b)),
		)
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, f := range slices.Compact(forms) {
		if f != "" {
			pairs = append(pairs, f, mask)
		}
	}
	return strings.NewReplacer(pairs...)
}

// withLines returns secrets and the words of those that have lines, such as a
// private key in a JSON document.
func withLines(secrets []string) []string {
	all := slices.Clone(secrets)
	for _, s := range secrets {
		if strings.Contains(strings.TrimSpace(s), "\n") {
			all = append(all, wordsOf([]byte(s))...)
		}
	}
	return all
}

// wordsOf returns user data and those of its words that may be a token.
func wordsOf(userData []byte) []string {
	text := string(userData)
	words := []string{text}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune(" \t\r\n\"'`<>,;()[]{}", r)
	}) {
		if len(w) >= shortestWord {
			words = append(words, w)
		}
		for _, part := range strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune("=:/@", r) }) {
			if len(part) >= shortestWord {
				words = append(words, part)
			}
		}
	}
	return words
}

// fix returns err as the contract wants it. userData is nil except in Create.
func (a *redactor) fix(op string, err error, userData []byte) error {
	if err == nil {
		return nil
	}
	found, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		found = &cloud.Error{Code: cloud.Unknown, Op: op, Reason: "Unclassified", Err: err}
	}
	e := *found
	if ok && error(found) != err { //nolint:errorlint // itself, not one that wraps it
		e.Err = err // somebody wrapped it; its words are kept
	}
	e.Op = cmp.Or(e.Op, op)
	if e.Err == nil {
		e.Err = errors.New("no cause given")
	}
	clean := a.clean.Replace
	if len(userData) > 0 {
		boot := replacer(wordsOf(userData))
		clean = func(s string) string { return boot.Replace(a.clean.Replace(s)) }
	}
	e.Op, e.Reason = clean(e.Op), clean(e.Reason)
	e.Problems = slices.Clone(e.Problems)
	for i := range e.Problems {
		e.Problems[i].Field, e.Problems[i].Message = clean(e.Problems[i].Field), clean(e.Problems[i].Message)
	}
	if text := e.Err.Error(); clean(text) != text {
		e.Err = &redacted{text: clean(text), cause: e.Err}
	}
	return &e
}

// redacted is an error with another text. What it stands for can be recognised
// by errors.Is and errors.As, and not be printed by accident.
type redacted struct {
	text  string
	cause error
}

func (r *redacted) Error() string        { return r.text }
func (r *redacted) GoString() string     { return r.text }
func (r *redacted) Is(target error) bool { return errors.Is(r.cause, target) }
func (r *redacted) As(target any) bool   { return errors.As(r.cause, target) }

// caught turns a panic into the error that err points to. It has to be deferred
// itself.
func (a *redactor) caught(op string, err *error) {
	if p := recover(); p != nil {
		*err = a.panicked(op, p)
	}
}

// panicked is the error for a panic.
func (a *redactor) panicked(op string, p any) error {
	if a.report != nil {
		a.report(a.driver, op, debug.Stack())
	}
	return cloud.Errorf(cloud.Unknown, op, "Panic", "the driver panicked: %v", p)
}

// cleaned returns vm with the cloud's words free of secrets.
func (a *redactor) cleaned(vm cloud.VM) cloud.VM {
	vm.Reason, vm.Message = a.clean.Replace(vm.Reason), a.clean.Replace(vm.Message)
	return vm
}

func (a *redactor) Create(ctx context.Context, r cloud.CreateRequest) (vm cloud.VM, err error) {
	defer func() { err = a.fix(opCreate, err, r.UserData) }()
	defer a.caught(opCreate, &err)
	vm, err = a.Account.Create(ctx, r)
	return a.cleaned(vm), err
}

func (a *redactor) Get(ctx context.Context, r cloud.Ref) (vm cloud.VM, err error) {
	defer func() { err = a.fix(opGet, err, nil) }()
	defer a.caught(opGet, &err)
	vm, err = a.Account.Get(ctx, r)
	return a.cleaned(vm), err
}

func (a *redactor) Delete(ctx context.Context, r cloud.Ref) (d cloud.Deletion, err error) {
	defer func() { err = a.fix(opDelete, err, nil) }()
	defer a.caught(opDelete, &err)
	return a.Account.Delete(ctx, r)
}

func (a *redactor) Capacity(ctx context.Context, c cloud.Class) (capacity cloud.Capacity, err error) {
	defer func() { err = a.fix(opCapacity, err, nil) }()
	defer a.caught(opCapacity, &err)
	return a.Account.Capacity(ctx, c)
}

func (a *redactor) SetTags(ctx context.Context, r cloud.Ref, obsolete []string) (err error) {
	defer func() { err = a.fix(opTags, err, nil) }()
	defer a.caught(opTags, &err)
	return cloud.SetTags(ctx, a.Account, r, obsolete)
}

func (a *redactor) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) (err error) {
	defer func() { err = a.fix(opRetention, err, nil) }()
	defer a.caught(opRetention, &err)
	return cloud.RecordRetention(ctx, a.Account, c, parts)
}

func (a *redactor) Reboot(ctx context.Context, r cloud.Ref) (err error) {
	defer func() { err = a.fix(opReboot, err, nil) }()
	defer a.caught(opReboot, &err)
	return cloud.Reboot(ctx, a.Account, r)
}

// Console returns the console without the account's secrets. Those of the boot data are unknown
// here.
func (a *redactor) Console(ctx context.Context, r cloud.Ref) (text string, err error) {
	defer func() { err = a.fix(opConsole, err, nil) }()
	defer a.caught(opConsole, &err)
	text, err = cloud.Console(ctx, a.Account, r)
	return cloud.ConsoleTail(a.clean.Replace(text)), err
}

func (a *redactor) RemoveBootData(ctx context.Context, r cloud.Ref) (err error) {
	defer func() { err = a.fix(opBootData, err, nil) }()
	defer a.caught(opBootData, &err)
	return cloud.RemoveBootData(ctx, a.Account, r)
}

func (a *redactor) Register(ctx context.Context, r cloud.Ref, places []string) (g cloud.Registration, err error) {
	defer func() { err = a.fix(opRegister, err, nil) }()
	defer a.caught(opRegister, &err)
	return cloud.Register(ctx, a.Account, r, places)
}

func (a *redactor) Deregister(ctx context.Context, r cloud.Ref, places []string) (g cloud.Registration, err error) {
	defer func() { err = a.fix(opDeregister, err, nil) }()
	defer a.caught(opDeregister, &err)
	return cloud.Deregister(ctx, a.Account, r, places)
}

// List catches panics of the driver, and lets those of the caller's loop pass.
func (a *redactor) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		callers, stopped := false, false
		give := func(r cloud.Resource, err error) bool {
			callers = true
			stopped = stopped || !yield(r, a.fix(opList, err, nil)) || err != nil
			callers = false
			return !stopped
		}
		defer func() {
			if callers {
				return // a panic of the loop goes its way
			}
			if p := recover(); p != nil {
				err := a.panicked(opList, p)
				if !stopped {
					give(cloud.Resource{}, err)
				}
			}
		}()
		for r, err := range a.Account.List(ctx, c, kinds...) {
			if r.VM != nil {
				vm := a.cleaned(*r.VM)
				r.VM = &vm
			}
			if !give(r, err) {
				return
			}
		}
	}
}
