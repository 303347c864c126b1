package mcmcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// domains are the failure domains of the spec.
type domains struct {
	offered []clusterv1.FailureDomain
	refused []string // names of those that no class of the Cluster is known to honour
	classes []string // names of the classes, sorted
	unknown string   // why not all classes are known; empty if they are
	// free are the names of young templates that Cluster API may give the Cluster yet; none if they count already.
	free []string
	// adopting is how long they are waited for.
	adopting time.Duration
}

// Cluster API makes the Cluster the owner of a template when it first reads it, before anything
// else is ready. One that has no owner after this time is of no Cluster that is being created.
const adoptionTime = 2 * time.Minute

// domainsOf finds which failure domains of the spec a MachineClass of the Cluster's
// templates can honour. While a class is not known, or a young template has no owner, those
// that were offered stay: that a class cannot be read for a moment, or that Cluster API has
// adopted the template of the workers first, is no reason to place machines elsewhere.
func (c *Controller) domainsOf(ctx context.Context, s *scope) (domains, error) {
	found := domains{offered: s.object.Spec.DeepCopy().FailureDomains}
	if len(found.offered) == 0 {
		return found, nil
	}
	classes, err := c.classesOf(ctx, s, &found)
	if err != nil {
		return found, err
	}
	found.offered = slices.DeleteFunc(found.offered, func(d clusterv1.FailureDomain) bool {
		takes := slices.ContainsFunc(classes, func(class cloud.Class) bool { return class.TakesZone(d.Name) })
		was := slices.ContainsFunc(s.object.Status.FailureDomains, func(o clusterv1.FailureDomain) bool {
			return o.Name == d.Name
		})
		if takes || was && (found.unknown != "" || len(found.free) > 0) {
			return false
		}
		found.refused = append(found.refused, d.Name)
		return true
	})
	return found, nil
}

// classesOf returns the classes of the Cluster's templates that can be read, and records
// the names of all, and why one is not known.
func (c *Controller) classesOf(ctx context.Context, s *scope, found *domains) (classes []cloud.Class, err error) {
	if err := c.findClassNames(ctx, s, found); err != nil {
		return nil, err
	}
	if len(found.classes) == 0 {
		found.unknown = fmt.Sprintf("no MCMMachineTemplate of Cluster %s exists; create one", s.cluster.Name)
	}
	for _, name := range found.classes {
		resolved, err := c.Classes.ResolveForTemplate(ctx, c.Client, s.object.Namespace, name)
		switch {
		case err != nil:
			return nil, err
		case resolved.Object == nil:
			found.unknown = fmt.Sprintf("MachineClass %s does not exist; create it", name)
		case resolved.Driver == nil:
			found.unknown = fmt.Sprintf("provider of MachineClass %s is not known; correct it", name)
		default:
			classes = append(classes, resolved.Class)
		}
	}
	return classes, nil
}

// findClassNames records the names of the classes of the Cluster's templates, sorted.
// Cluster API makes the Cluster the owner of its templates when it first uses them; until
// one is, those without an owner count. Afterwards young ones are recorded, too: the
// control plane's may be among them.
func (c *Controller) findClassNames(ctx context.Context, s *scope, found *domains) error {
	var list infrav1.MCMMachineTemplateList
	if err := c.Client.List(ctx, &list, client.InNamespace(s.object.Namespace)); err != nil {
		return fmt.Errorf("look up MCMMachineTemplates: %w", err)
	}
	var ours, unowned []*infrav1.MCMMachineTemplate
	for i := range list.Items {
		switch o := &list.Items[i]; {
		case capi.ClusterName(o) == s.cluster.Name:
			ours = append(ours, o)
		case isUnowned(o):
			unowned = append(unowned, o)
		}
	}
	if len(ours) == 0 {
		ours, unowned = unowned, nil
	}
	for _, o := range ours {
		found.classes = append(found.classes, o.Spec.Template.Spec.MachineClassRef.Name)
	}
	for _, o := range unowned {
		if left := adoptionTime - s.now.Sub(o.CreationTimestamp.Time); left > 0 {
			found.free, found.adopting = append(found.free, o.Name), max(found.adopting, left)
		}
	}
	slices.Sort(found.classes)
	found.classes = slices.Compact(found.classes)
	slices.Sort(found.free)
	return nil
}

// isUnowned reports whether o belongs to no Cluster and no ClusterClass.
func isUnowned(o client.Object) bool {
	return capi.ClusterName(o) == "" && len(o.GetOwnerReferences()) == 0
}

// condition reports whether all failure domains of the spec are offered.
func (d domains) condition() metav1.Condition {
	c := metav1.Condition{
		Type: infrav1.FailureDomainsOfferedCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonOffered,
	}
	if len(d.refused) == 0 {
		return c
	}
	c.Status, c.Reason = metav1.ConditionFalse, infrav1.ReasonZoneNotInClass
	c.Message = fmt.Sprintf("spec.failureDomains %s not offered: MachineClasses %s cannot place VMs there; "+
		"add the zones to a class, or remove them here", strings.Join(d.refused, ", "), strings.Join(d.classes, ", "))
	if d.unknown != "" {
		c.Reason = infrav1.ReasonClassNotKnown
		c.Message = fmt.Sprintf("spec.failureDomains %s not offered: %s (checked again when it changes)",
			strings.Join(d.refused, ", "), d.unknown)
	}
	return c
}
