package tierbench.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetricInfo;
import org.apache.spark.util.AccumulatorContext;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** An executed plan as JSON: its operators with their SQL metrics, as Spark's own page has them. */
final class Plans {
    private Plans() {}

    static Map<String, Object> of(QueryExecution execution) {
        Map<String, Object> found = new LinkedHashMap<>();
        Map<String, Long> phases = new LinkedHashMap<>();
        CollectionConverters.asJava(execution.tracker().phases())
                .forEach((name, phase) -> phases.put(name, phase.durationMs() * 1_000_000));
        found.put("phases_ns", phases);
        found.put("operators", operator(SparkPlanInfo.fromSparkPlan(execution.executedPlan())));
        return found;
    }

    private static Map<String, Object> operator(SparkPlanInfo plan) {
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("name", plan.nodeName());
        found.put("detail", plan.simpleString());
        List<Object> metrics = new ArrayList<>();
        for (SQLMetricInfo metric : CollectionConverters.asJava(plan.metrics())) {
            Option<AccumulatorV2<?, ?>> value = AccumulatorContext.get(metric.accumulatorId());
            if (value.isDefined()) {
                metrics.add(Map.of("id", metric.accumulatorId(), "name", metric.name(),
                        "type", metric.metricType(), "value", value.get().value()));
            }
        }
        found.put("metrics", metrics);
        List<Object> children = new ArrayList<>();
        for (SparkPlanInfo child : CollectionConverters.asJava(plan.children())) {
            children.add(operator(child));
        }
        found.put("children", children);
        return found;
    }
}
