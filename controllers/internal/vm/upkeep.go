package vm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/bootstrap"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Upkeep is what a step found out that keeps what belongs to a VM, e.g. its tags, as it is to be.
// A failure of the cloud is in it: it is reported, and changes nothing else about the machine.
type Upkeep struct {
	Done       bool          // it is as it is to be; Reason and Message say so, if that is worth showing
	None       bool          // there is nothing to keep, or nothing to show any more
	RetryAfter time.Duration // when the step is worth calling again; 0: when class or Secret change
	Reason     string        // why it is not as it is to be; empty: there is nothing to show
	Message    string
}

// UpkeepConditions are the types of the conditions that show an Upkeep, in their order.
var UpkeepConditions = []string{
	machinev1.ConditionTagsUpdated, machinev1.ConditionBootDataRemoved, machinev1.ConditionLoadBalancerRegistered,
}

// failed returns the Upkeep of a call to the cloud that has failed that many times in a row, since
// that time; a zero time is now. It shows what does not pass by itself, and describe puts that into
// words. An error that is not the cloud's is returned.
func (e *Engine) failed(err error, failures int, since time.Time, describe func(error) string) (Upkeep, error) {
	if !outcome.IsCloud(err) {
		return Upkeep{}, err
	}
	u := Upkeep{RetryAfter: cmp.Or(outcome.After(err, 0), outcome.Backoff(e.waited(since)))}
	if lasts(err, failures) {
		u.Reason, u.Message = outcome.Reason(err), describe(err)
	}
	return u, nil
}

// waited is how long ago that was; 0 for a zero time.
func (e *Engine) waited(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return e.clock.Since(since)
}

// countFailures notes how a call for the VM of a machine has ended, and returns how many have failed in a
// row. A call that was not made because of the cloud's rate does not count.
func (e *Engine) countFailures(ownerID string, err error, counter func(*memory) *int) (failures int) {
	e.update(ownerID, func(n *memory) {
		count := counter(n)
		switch {
		case err == nil:
			*count = 0
		case !isRateBudget(err):
			*count++
		}
		failures = *count
	})
	return failures
}

// failureThreshold is how many calls may fail in a row, because the cloud is busy or away,
// before a condition shows it: a blip is worth no write.
const failureThreshold = 2

// lasts reports whether a failure of the cloud, the last of so many in a row, is worth a
// condition.
func lasts(err error, failures int) bool {
	c, ok := errors.AsType[*cloud.Error](err)
	if !ok || isRateBudget(err) {
		return false
	}
	return c.Code != cloud.Throttled && c.Code != cloud.Unavailable || failures >= failureThreshold
}

// isRateBudget reports whether a call has not been made because of the cloud's rate.
func isRateBudget(err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Reason == cloud.ReasonRateBudget
}

// FollowsTags reports whether the VMs of a MachineClass get its tags when they change.
func FollowsTags(o client.Object) bool {
	return o.GetDeletionTimestamp().IsZero() && o.GetAnnotations()[machinev1.UpdateTagsAnnotation] == "true"
}

// recordForCreate returns the record that has to be persisted before a VM of the class is
// created, given the last one: the keys that it may get. first is set if no request for the
// VM has been sent yet. Only the first request, and one like the last, makes it certain which
// tags the VM has. There is no record of a VM whose class has never let it follow its tags.
func recordForCreate(r class.Resolved, last string, first bool) string {
	tagger, ok := r.Driver.(cloud.Tagger)
	follows := ok && r.Object != nil && FollowsTags(r.Object)
	if !follows && last == "" {
		return ""
	}
	was, is := readRecord(last), tagRecord{}
	if ok {
		is = recordOf(tagger.UserTags(r.Class))
	}
	if follows && (first && last == "" || was.Hash == is.Hash) {
		return is.String()
	}
	return was.with(is).String() // an earlier request, with other tags, may have made the VM
}

// UpdateTags changes the tags of the machine's VM to those of its class, where the class asks
// for it, and they are not known to be the same already: then nothing else about the class
// matters. It records first which keys the VM may get, so that they are removed again should
// the class lose them. A VM that is not there needs no tags. since is when the tags were first
// found not to be updated; zero is now.
func (e *Engine) UpdateTags(ctx context.Context, m *Machine, since time.Time) (Upkeep, error) {
	err := e.updateTags(ctx, m)
	failures := e.countFailures(m.Ref().OwnerID, err, func(n *memory) *int { return &n.tagFailures })
	unsupported, ok := errors.AsType[*cloud.Error](err)
	switch {
	case err == nil:
		return Upkeep{None: true}, nil
	case ok && unsupported.Reason == cloud.ReasonTagsUnsupported:
		return Upkeep{
			Reason:  unsupported.Reason,
			Message: "The tags of the VM do not follow the class: " + unsupported.Err.Error(),
		}, nil
	}
	return e.failed(err, failures, since, func(err error) string {
		return fmt.Sprintf("The tags of the VM could not be updated: %s; correct the cause (retried automatically)", err)
	})
}

func (e *Engine) updateTags(ctx context.Context, m *Machine) error {
	if m.ClassErr != nil || m.Class.Object == nil || !FollowsTags(m.Class.Object) {
		return m.ClassErr
	}
	tagger, ok := m.Class.Driver.(cloud.Tagger)
	if ok {
		is, was := recordOf(tagger.UserTags(m.Class.Class)), readRecord(m.State.Tags)
		if was.Hash == is.Hash {
			return nil
		}
		if err := m.Class.Err(cloud.BlocksCreate); err != nil {
			return err // what is not understood of the class may be its tags
		}
		return e.setTags(ctx, m, was, is)
	}
	if err := m.Class.Err(cloud.BlocksCreate); err != nil {
		return err // it may name the wrong cloud
	}
	return cloud.Errorf(cloud.Invalid, "set tags", cloud.ReasonTagsUnsupported,
		"the driver of cloud %s cannot change the tags of VMs that exist; roll the machines out, or remove annotation %s "+
			"from MachineClass %s", m.Class.Driver.Traits().Name, machinev1.UpdateTagsAnnotation, m.Class.Object.Name)
}

// setTags changes the tags of a VM from those of one record to those of another.
func (e *Engine) setTags(ctx context.Context, m *Machine, was, is tagRecord) error {
	account, err := m.Class.Account(ctx)
	if err != nil {
		return err
	}
	if may := was.with(is).String(); may != m.State.Tags {
		if err := m.save(ctx, func(s *State) { s.Tags = may }); err != nil {
			return fmt.Errorf("record keys of tags: %w", err)
		}
	}
	obsolete := slices.DeleteFunc(slices.Clone(was.Keys), func(key string) bool { return slices.Contains(is.Keys, key) })
	ref := m.Ref()
	if err := cloud.SetTags(ctx, account, ref, obsolete); err != nil {
		if cloud.CodeOf(err) != cloud.NotFound {
			return err
		}
		known, err := e.identify(ctx, m)
		if known && err == nil {
			err = cloud.SetTags(ctx, account, m.Ref(), obsolete)
		}
		if !known || err != nil {
			return err
		}
	}
	if err := m.save(ctx, func(s *State) { s.Tags = is.String() }); err != nil {
		return fmt.Errorf("record tags: %w", err)
	}
	loggerOf(ctx, ref).Info("Updated tags of VM", "providerID", ref.ProviderID, "keys", is.Keys, "removed", obsolete)
	return nil
}

// tagRecord is which tags a VM has got.
type tagRecord struct {
	Keys []string `json:"keys"`           // that it has, or may have, sorted
	Hash string   `json:"hash,omitempty"` // of keys and values; empty while they are not certain
}

// recordOf is the record of a VM that has these tags.
func recordOf(tags map[string]string) tagRecord {
	const length = 8
	text, _ := json.Marshal(tags) // sorted, and strings only, so it never fails
	sum := sha256.Sum256(text)
	return tagRecord{append([]string{}, slices.Sorted(maps.Keys(tags))...), hex.EncodeToString(sum[:length])}
}

// readRecord reads a record. One that cannot be read knows nothing.
func readRecord(text string) tagRecord {
	var r tagRecord
	if json.Unmarshal([]byte(text), &r) != nil {
		return tagRecord{}
	}
	return r
}

// with is the record of a VM that may have the tags of both.
func (r tagRecord) with(other tagRecord) tagRecord {
	keys := slices.Concat(r.Keys, other.Keys)
	slices.Sort(keys)
	return tagRecord{Keys: slices.Compact(keys)}
}

// String is the record as it is persisted.
func (r tagRecord) String() string {
	text, _ := json.Marshal(r) // strings only, so it never fails
	return string(text)
}

// keepsBootData reports whether the cloud keeps the boot data of VMs of a class outside of
// them. That has to be recorded before such a VM is created.
func keepsBootData(r class.Resolved) bool {
	keeper, ok := r.Driver.(cloud.BootDataKeeper)
	if !ok {
		return false
	}
	_, private := keeper.PrivateBootData(r.Class)
	return private
}

// RemoveBootData removes the boot data that the cloud keeps of the machine's VM, whose node has
// joined, and then the record, without which it does nothing. Removing the VM does the same.
// since is when it was first found that it could not be removed; zero is now.
func (e *Engine) RemoveBootData(ctx context.Context, m *Machine, since time.Time) (Upkeep, error) {
	if !m.State.BootData {
		return Upkeep{None: true}, nil
	}
	err := e.removeBootData(ctx, m)
	failures := e.countFailures(m.Ref().OwnerID, err, func(n *memory) *int { return &n.bootDataFailures })
	if err == nil {
		return Upkeep{None: true}, nil
	}
	return e.failed(err, failures, since, func(err error) string {
		return fmt.Sprintf("The node has joined, and the boot data that the cloud keeps of its VM could not be removed: "+
			"%s; correct the cause (retried automatically)", err)
	})
}

func (e *Engine) removeBootData(ctx context.Context, m *Machine) error {
	account, err := e.Account(ctx, m)
	if err != nil {
		return err
	}
	ref := m.Ref()
	if err := cloud.RemoveBootData(ctx, account, ref); err != nil {
		return err
	}
	if err := m.save(ctx, func(s *State) { s.BootData = false }); err != nil {
		return fmt.Errorf("record that boot data was removed: %w", err)
	}
	loggerOf(ctx, ref).Info("Removed boot data of VM whose node has joined", "providerID", ref.ProviderID)
	return nil
}

// checkBootData refuses boot data with private keys for a VM of a control plane of Cluster
// API, where the cloud could keep it private and the class does not ask for that: whoever
// may describe VMs could sign certificates for the cluster.
func checkBootData(m *Machine, data []byte) error {
	keeper, ok := m.Class.Driver.(cloud.BootDataKeeper)
	if !ok || !m.ControlPlane || m.Class.Object == nil ||
		m.Class.Object.Annotations[machinev1.AllowPlainBootDataAnnotation] == "true" {
		return nil
	}
	field, private := keeper.PrivateBootData(m.Class.Class)
	if private || !bootstrap.HasPrivateKey(data) {
		return nil
	}
	message := fmt.Sprintf("is missing, and the boot data of this control plane machine has private keys, which whoever "+
		"may describe VMs could read; set it, or accept that by annotation %s: \"true\" on MachineClass %s",
		machinev1.AllowPlainBootDataAnnotation, m.Class.Object.Name)
	return &cloud.Error{
		Code: cloud.Invalid, Op: "prepare boot data", Reason: infrav1.ReasonPlainBootData,
		Problems: []cloud.Problem{{Severity: cloud.BlocksCreate, Field: field, Message: message}},
		Err:      errors.New(field + " " + message),
	}
}
