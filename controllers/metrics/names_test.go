package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

var descName = regexp.MustCompile(`fqName: "([^"]+)"`)

// described are the names of all metrics of these collectors.
func described(cs ...prometheus.Collector) []string {
	ch := make(chan *prometheus.Desc, 1000)
	for _, c := range cs {
		c.Describe(ch)
	}
	close(ch)
	var names []string
	for d := range ch {
		names = append(names, descName.FindStringSubmatch(d.String())[1])
	}
	return names
}

// mcmNames are the names of MCM's metrics that describe objects, machines and
// requests. Those of clouds are package wrap's, those of queues are renamed.
const mcmNames = `
mcm_machine_set_items_total mcm_machine_set_info mcm_machine_set_info_spec_replicas mcm_machine_set_info_spec_min_ready_seconds
mcm_machine_set_status_condition mcm_machine_set_failed_machines mcm_machine_set_status_available_replicas
mcm_machine_set_status_fully_labelled_replicas mcm_machine_set_status_ready_replicas mcm_machine_set_status_replicas
mcm_machine_deployment_items_total mcm_machine_deployment_info mcm_machine_deployment_info_spec_paused
mcm_machine_deployment_info_spec_replicas mcm_machine_deployment_info_spec_min_ready_seconds
mcm_machine_deployment_info_spec_rolling_update_max_surge mcm_machine_deployment_info_spec_rolling_update_max_unavailable
mcm_machine_deployment_info_spec_revision_history_limit mcm_machine_deployment_info_spec_progress_deadline_seconds
mcm_machine_deployment_info_spec_rollback_to_revision mcm_machine_deployment_status_condition
mcm_machine_deployment_status_available_replicas mcm_machine_deployment_status_unavailable_replicas
mcm_machine_deployment_status_ready_replicas mcm_machine_deployment_status_updated_replicas
mcm_machine_deployment_status_collision_count mcm_machine_deployment_status_replicas mcm_machine_deployment_failed_machines
mcm_misc_scrape_failure_total
mcm_machine_controller_frozen mcm_machine_items_total mcm_machine_current_status_phase mcm_machine_info mcm_machine_status_condition
mcm_machine_create_duration_seconds mcm_machine_initialize_duration_seconds mcm_machine_join_duration_seconds
mcm_machine_delete_duration_seconds mcm_machine_drain_duration_seconds mcm_machine_num_failed_join
mcm_reflector_lists_total mcm_reflector_list_duration_seconds mcm_reflector_watches_total mcm_reflector_short_watches_total
mcm_reflector_watch_duration_seconds mcm_reflector_last_resource_version rest_client_request_latency_seconds
`

func TestNames(t *testing.T) {
	t.Parallel()
	c := clientOf(t)
	ours := described(NewObjects(c, scrape(t), nil, nil), NewDurations(c, scrape(t)), NewRequests(clock.RealClock{}),
		NewClusterAPI(c, scrape(t), nil, MCMMachines(), MCMClusters(), MCMExternalControlPlanes()),
		NewBuildInfo("v1", ""), NewLeading(nil, nil))
	for name := range strings.FieldsSeq(mcmNames) {
		if !slices.Contains(ours, name) {
			t.Errorf("MCM's metric %s is not there", name)
		}
	}
	docs, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ours {
		if !strings.Contains(string(docs), "`"+name+"`") {
			t.Errorf("docs/monitoring.md does not tell about %s", name)
		}
	}
}
