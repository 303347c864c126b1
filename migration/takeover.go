package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Takeover reports whether a namespace of Machine Controller Manager's can be given to
// the native door, and whether it could be given back.
type Takeover struct {
	Namespace string    `json:"namespace"`
	There     []Finding `json:"there"`
	Back      []Finding `json:"back"`
	Machines  int       `json:"machines"`
}

// Safe reports whether nothing is in the way of the native door.
func (t Takeover) Safe() bool { return !anyBlocked(t.There) }

// BackSafe reports whether nothing is in the way of MCM, now.
func (t Takeover) BackSafe() bool { return !anyBlocked(t.Back) }

func anyBlocked(all []Finding) bool {
	return slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Blocked || f.Level == Lost })
}

// Managers are who may work on a namespace, and the kinds of the native door as the
// API server has them.
type Managers struct {
	Deployments []appsv1.Deployment                        // of the namespace that may run a manager
	CRDs        []apiextensionsv1.CustomResourceDefinition // of the group machine.sapcloud.io
	Records     []Record
}

// ReadManagers reads them. It is an error if one of them may not be read.
func ReadManagers(ctx context.Context, c client.Reader, namespace string) (*Managers, error) {
	var m Managers
	var deployments appsv1.DeploymentList
	if err := c.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list Deployments of namespace %s: %w", namespace, err)
	}
	for i := range deployments.Items {
		if mcmImage(&deployments.Items[i]) != "" {
			m.Deployments = append(m.Deployments, deployments.Items[i])
		}
	}
	for _, kind := range nativePlurals {
		var crd apiextensionsv1.CustomResourceDefinition
		err := c.Get(ctx, client.ObjectKey{Name: kind + "." + machinev1.GroupVersion.Group}, &crd)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read CustomResourceDefinition of %s: %w", kind, err)
		}
		if err == nil {
			m.CRDs = append(m.CRDs, crd)
		}
	}
	var err error
	m.Records, err = Records(ctx, c, namespace)
	return &m, err
}

var nativePlurals = []string{"machineclasses", "machinedeployments", "machines", "machinesets"}

// mcmImage is the image of a container of MCM's; empty if there is none. MCM's two
// processes are built as machine-controller-manager and
// machine-controller-manager-provider-<cloud>.
func mcmImage(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		name := lastSegment(c.Image)
		if strings.HasPrefix(name, "machine-controller-manager") {
			return c.Image
		}
	}
	return ""
}

// CheckTakeover judges a namespace at a time. It reads nothing and changes nothing.
func CheckTakeover(s *Surroundings, m *Managers, now time.Time) Takeover {
	t := Takeover{Namespace: s.Namespace, Machines: len(s.Machines), There: []Finding{}, Back: []Finding{}}
	t.There = append(t.There, takeoverLeases(s, now)...)
	t.There = append(t.There, takeoverManagers(m)...)
	t.There = append(t.There, takeoverKinds(m)...)
	t.There = append(t.There, takeoverObjects(s)...)
	t.There = append(t.There, takeoverClouds(s)...)
	t.Back = append(t.Back, backForms(s)...)
	t.Back = append(t.Back, backMoves(s, m)...)
	t.Back = append(t.Back, backMarks(s)...)
	return t
}

// takeoverLeases says who works now.
func takeoverLeases(s *Surroundings, now time.Time) []Finding {
	out := s.foreign(now)
	for i := range out {
		out[i].Remedy = "scale its Deployment to 0 and wait until the Lease is free: the native door begins when it has both"
	}
	ours := 0
	for i := range s.Leases {
		if HolderOf(&s.Leases[i], now) == HolderOurs {
			ours++
		}
	}
	if ours > 0 {
		out = append(out, Finding{Level: Kept, Object: "Lease", Text: "a manager of this project holds MCM's leases already"})
	}
	return out
}

// takeoverManagers refuses Deployments of MCM's that would come back.
func takeoverManagers(m *Managers) []Finding {
	var out []Finding
	for i := range m.Deployments {
		d := &m.Deployments[i]
		f := Finding{Level: Kept, Object: objectName("Deployment", d), Text: "it runs " + mcmImage(d) +
			", and is scaled to 0"}
		if d.Spec.Replicas == nil || *d.Spec.Replicas > 0 {
			f.Level, f.Text = Blocked, "it runs "+mcmImage(d)
			f.Remedy = "scale it to 0, and see that nobody scales it up again: a dependency watchdog, an operator, GitOps"
		}
		out = append(out, f)
	}
	return out
}

// takeoverKinds is about the CustomResourceDefinitions: those of MCM do, but forget
// what it does not know.
func takeoverKinds(m *Managers) []Finding {
	var out []Finding
	have := map[string]bool{}
	for i := range m.CRDs {
		crd := &m.CRDs[i]
		have[crd.Spec.Names.Plural] = true
		if crd.Spec.Names.Plural == "machines" && !keepsField(crd, "status", "nodeRef") {
			out = append(out, Finding{
				Level: Replaced, Object: "CustomResourceDefinition " + crd.Name, Field: "status.nodeRef",
				Text: "it is MCM's and drops fields that the native door adds: status.nodeRef, status.progress, status.phase. " +
					"Nothing is decided from them, but upstream's autoscaler reads nodeRef; it needs this project's " +
					"CustomResourceDefinitions",
			})
		}
	}
	for _, kind := range nativePlurals {
		if !have[kind] {
			out = append(out, Finding{Level: Blocked, Object: "CustomResourceDefinition " + kind + "." +
				machinev1.GroupVersion.Group, Text: "it does not exist", Remedy: "apply config/native, or MCM's"})
		}
	}
	return out
}

// keepsField reports whether the API server keeps a field of the first version.
func keepsField(crd *apiextensionsv1.CustomResourceDefinition, path ...string) bool {
	if len(crd.Spec.Versions) == 0 || crd.Spec.Versions[0].Schema == nil {
		return true // nothing is pruned
	}
	at := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, name := range path {
		if at == nil || value(at.XPreserveUnknownFields) {
			return true
		}
		next, there := at.Properties[name]
		if !there {
			return false
		}
		at = &next
	}
	return true
}

// takeoverClouds refuses classes of clouds that the manager cannot reach: their
// machines would be left alone, not even deleted.
func takeoverClouds(s *Surroundings) []Finding {
	var out []Finding
	for _, name := range keysOf(s.Classes) {
		if provider := s.Classes[name].Provider; !cloud.HasDriver(provider) {
			out = append(out, Finding{
				Level: Blocked, Object: "MachineClass " + name, Field: "provider",
				Text:   fmt.Sprintf("the native door has no driver for %q", provider),
				Remedy: "leave the namespace to MCM, or move these pools to a namespace of their own first",
			})
		}
	}
	return out
}

// takeoverObjects is about objects in the middle of something.
func takeoverObjects(s *Surroundings) []Finding {
	var going, unmade, inPlace int
	for i := range s.Machines {
		m := &s.Machines[i]
		switch phase := m.Status.CurrentStatus.Phase; {
		case !m.DeletionTimestamp.IsZero():
			going++
		case m.Spec.ProviderID == "":
			unmade++
		case phase == machinev1.MachineInPlaceUpdating:
			inPlace++
		}
	}
	var out []Finding
	for _, c := range []struct {
		count int
		text  string
	}{
		{going, "are being deleted; the native door goes on at the step that status.lastOperation.description tells"},
		{unmade, "have no VM on record; the native door looks in the cloud for one that MCM may have made before it makes one"},
		{inPlace, "are being updated in place; the native door goes on"},
	} {
		if c.count > 0 {
			out = append(out, Finding{
				Level: Kept, Object: fmt.Sprintf("%d of %d Machines", c.count, len(s.Machines)),
				Text: c.text,
			})
		}
	}
	for i := range s.Deployments {
		if d := &s.Deployments[i]; d.Spec.Selector == nil {
			out = append(out, Finding{
				Level: Kept, Object: objectName(machinev1.MachineDeploymentKind, d),
				Field: "spec.selector", Text: "it has none, which crashes MCM; the native door says so and does nothing for it",
			})
		}
	}
	return out
}
