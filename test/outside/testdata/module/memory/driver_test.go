package memory

import (
	"net/http"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

// TestConformance is the kit on a driver from outside.
func TestConformance(t *testing.T) {
	t.Parallel()
	cloudtest.Run(t, Harness(func(transport http.RoundTripper, _ *Server) cloud.Driver { return NewDriver(transport) }))
}
