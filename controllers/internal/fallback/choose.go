package fallback

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
)

// A Pool names classes in the order of preference.
type Pool struct {
	Namespace string
	Classes   []string // the first one is that of the template
	Zone      string   // that the machine asks for; empty leaves it to the class
}

// A Candidate is a class of a pool.
type Candidate struct {
	class.Resolved
	Name  string
	Offer Offer
	// Unusable is why machines of the pool cannot have this class; empty if they can.
	Unusable string
}

// Candidates resolves the classes of a pool. One that cannot be used as it is stays in the
// list, with the cause. It makes no call to a cloud.
func Candidates(ctx context.Context, c client.Reader, resolve class.Resolve, pool Pool) ([]Candidate, error) {
	var found []Candidate
	for _, name := range pool.Classes {
		r, err := resolve(ctx, c, pool.Namespace, name)
		if err != nil {
			return nil, err
		}
		one := Candidate{Resolved: r, Name: name, Offer: OfferOf(r, pool.Namespace, name, pool.Zone)}
		if len(found) > 0 {
			one.Unusable = unusable(r, found[0].Resolved, pool.Zone)
		}
		found = append(found, one)
	}
	return found, nil
}

// Others resolves the classes of a pool beside the one named own.
func Others(ctx context.Context, c client.Reader, resolve class.Resolve, pool Pool, own string) ([]class.Resolved,
	error,
) {
	var others []class.Resolved
	for _, name := range pool.Classes {
		if name == own {
			continue
		}
		r, err := resolve(ctx, c, pool.Namespace, name)
		if err != nil {
			return nil, err
		}
		others = append(others, r)
	}
	return others, nil
}

// OfferOf is what a class offers in a zone.
func OfferOf(r class.Resolved, namespace, name, zone string) Offer {
	o := Offer{Namespace: namespace, Class: name, Zone: zone}
	if r.Object != nil {
		h := sha256.Sum256(r.Object.ProviderSpec.Raw)
		o.Spec = hex.EncodeToString(h[:8])
	}
	return o
}

// ReadOnlyClass is a class.Resolve that reads the MachineClass and nothing else: for choosing among
// classes, not for their VMs.
func ReadOnlyClass(ctx context.Context, c client.Reader, namespace, name string) (class.Resolved, error) {
	object := &machinev1.MachineClass{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object, client.UnsafeDisableDeepCopy)
	if err != nil {
		return class.Resolved{}, client.IgnoreNotFound(err)
	}
	return class.Resolved{Object: object}, nil
}

// unusable is why a class cannot take the place of the first one. A class of another provider
// could not: everything about a machine, from the form of its providerID to its boot data,
// is made for one.
func unusable(r, first class.Resolved, zone string) string {
	if err := r.Err(cloud.BlocksCreate); err != nil {
		return err.Error()
	}
	if r.Object == nil || !r.Object.DeletionTimestamp.IsZero() {
		return "it does not exist, or is being deleted; create it, or name another one"
	}
	if first.Object == nil || r.Object.Provider != first.Object.Provider {
		return "its provider is not that of the first class; name classes of one provider"
	}
	if !r.Class.TakesZone(zone) {
		return fmt.Sprintf("it cannot place a VM in zone %q", zone)
	}
	return ""
}

// Next returns the first candidate that the machine with that owner id may ask for, beside the
// one named except; false if there is none.
func (m *Memory) Next(all []Candidate, owner, except string) (Candidate, bool) {
	for _, one := range all {
		if one.Name != except && one.Unusable == "" && m.MayTry(one.Offer, owner) {
			return one, true
		}
	}
	return Candidate{}, false
}

// Coming returns the candidate that a new machine of the pool will probably get, whatever its
// zone: the first one if all are exhausted. While nothing is known of the classes before it, as
// after a restart, it is still the one named last; empty is none. all must not be empty.
func (m *Memory) Coming(all []Candidate, last string) Candidate {
	from := max(slices.IndexFunc(all, func(c Candidate) bool { return c.Name == last }), 0)
	for i, one := range all {
		soldOut, known := m.SoldOut(one.Offer)
		if one.Unusable == "" && !soldOut && (known || i >= from) {
			return one
		}
	}
	return all[0]
}

// Describe returns why the candidates before and after the one named except are not used
// instead of it, for a message; empty if there are none.
func (m *Memory) Describe(all []Candidate, except string) string {
	var texts []string
	for _, one := range all {
		if one.Name == except {
			continue
		}
		cause, until, short := m.Shortage(one.Offer)
		switch {
		case one.Unusable != "":
			texts = append(texts, fmt.Sprintf("%s: %s", one.Name, one.Unusable))
		case short:
			texts = append(texts, fmt.Sprintf("%s: %s (tried again by one machine from %s on)", one.Name, cause,
				until.UTC().Format(time.RFC3339)))
		}
	}
	return strings.Join(texts, "; ")
}

// Refusal returns err as the cloud's refusal of a class of those that a pool names; nil if it is
// another error, after which no other class would serve either. Everything but a lack of capacity
// is to be corrected where it is the first class that was refused. Boot data is that of one
// machine, and says nothing about its class.
func Refusal(err error, names []string, class string) *cloud.Error {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok || e.Reason == infrav1.ReasonPlainBootData {
		return nil
	}
	further := len(names) > 1 && slices.Contains(names[1:], class)
	if e.Code == cloud.Exhausted || further && (e.Code == cloud.Invalid || e.Code == cloud.Denied) {
		return e
	}
	return nil
}

// Leave notes that the cloud has refused the offer of the class named was, and returns the candidate
// with which the machine of that owner id goes on, which begins to ask for that; false if there is
// none.
func (m *Memory) Leave(o Offer, refusal *cloud.Error, pool []Candidate, owner, was string) (Candidate, bool) {
	m.Refused(o, refusal.Error())
	next, ok := m.Next(pool, owner, was)
	return next, ok && m.Begin(next.Offer, owner)
}

// LeaveMessage is the message of the Event that a machine goes on with another class.
func LeaveMessage(was, next string, refusal *cloud.Error) string {
	return fmt.Sprintf("MachineClass %s cannot be used: %s; falling back to MachineClass %s", was, refusal, next)
}

// SwitchMessage is what a machine shows while it changes its class.
func SwitchMessage(was, next string) string {
	return fmt.Sprintf("MachineClass %s follows once nothing is left of the VM requested from MachineClass %s", next, was)
}

// ClassesOfSet returns the names of the classes that new Machines of a MachineSet may have, that of its
// template first: one name if neither its MachineDeployment, nor, without one, the set itself
// names more.
func ClassesOfSet(ctx context.Context, c client.Reader, set *machinev1.MachineSet) ([]string, error) {
	first := set.Spec.Template.Spec.Class.Name
	var named metav1.Object = set
	if ref := metav1.GetControllerOf(set); ref != nil && ref.Kind == machinev1.MachineDeploymentKind {
		d := &machinev1.MachineDeployment{}
		err := c.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: ref.Name}, d, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		named = d
	}
	return append([]string{first}, machinev1.FallbackClasses(named, first)...), nil
}

// ClassesOfMachine is ClassesOfSet of the Machine's MachineSet; nil if it has none.
func ClassesOfMachine(ctx context.Context, c client.Reader, m *machinev1.Machine) ([]string, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil || ref.Kind != machinev1.MachineSetKind {
		return nil, nil
	}
	set := &machinev1.MachineSet{}
	err := c.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, set, client.UnsafeDisableDeepCopy)
	if err != nil || set.UID != ref.UID {
		return nil, client.IgnoreNotFound(err)
	}
	return ClassesOfSet(ctx, c, set)
}
