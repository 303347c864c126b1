package legacy

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/mcmdriver"

	"example.com/outside/memory"
)

// Provider is MachineClass.provider.
const Provider = "LegacyMemory"

// NewDriver returns the driver for the manager.
func NewDriver(transport http.RoundTripper, now func() time.Time) cloud.Driver {
	return mcmdriver.Wrap(&Driver{&http.Client{Transport: transport}}, mcmdriver.Traits{
		Cloud: cloud.Traits{
			Name: Provider, UserDataMax: 16 << 10, Names: cloud.NameLimits{Max: 63}, Settle: time.Second, NodeNamed: true,
		},
		ProviderIDPrefix: prefix,
		NodeProviderID:   func(providerID string) string { return providerID },
		Secret:           []string{"key"},
		FindsByName:      true,
		Describe: func(raw json.RawMessage) (mcmdriver.Description, []cloud.Problem) {
			s, problems := memory.ParseSpec(raw)
			return mcmdriver.Description{Zone: s.Zone, InstanceType: s.Type, Owner: s.Cluster + "/" + s.Role}, problems
		},
		Now: now,
	})
}
