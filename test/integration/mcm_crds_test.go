package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
)

// TestMCMsOwnCRDs runs on the CRDs that Gardener installs, which drop the fields
// that we add: everything works, and a settled pool costs no request.
func TestMCMsOwnCRDs(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	crds := filepath.Join(root, "..", "shared", "data", "mcm-crds")
	if _, err := os.Stat(crds); err != nil {
		t.Skip("MCM's CRDs are not beside this project")
	}
	s := start(t, stack.Options{CRDs: crds, Audit: true})
	s.Expect(s.CreateClass(t.Context(), "c1", "small")).To(Succeed())
	s.Expect(s.CreateClass(t.Context(), "c2", "large")).To(Succeed())
	d := stack.Deployment("pool", "c1", 3, "1", "1")
	s.Expect(s.Client.Create(t.Context(), d)).To(Succeed())
	s.eventually("3 machines", func(ctx context.Context) error { return s.Settled(ctx, "pool", "c1", 3) })
	s.Expect(s.Edit(t.Context(), d, func() { d.Spec.Template.Spec.Class.Name = "c2" })).To(Succeed())
	s.eventually("3 machines of the new class", func(ctx context.Context) error { return s.Settled(ctx, "pool", "c2", 3) })
	s.eventually("seconds without a request", func(ctx context.Context) error {
		from, err := s.Cluster.Mark(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second):
		}
		to, err := s.Cluster.Mark(ctx)
		if err != nil {
			return err
		}
		entries, err := s.Cluster.Audit().Between(from, to, audit.User(stack.ManagerUser),
			audit.Not(audit.Verb("watch")), audit.Not(audit.Resource("leases")))
		for _, e := range entries {
			if e.Name != "dummy_name" {
				return fmt.Errorf("%s %s although nothing changes", e.Verb, e.Target())
			}
		}
		return err
	})
}
