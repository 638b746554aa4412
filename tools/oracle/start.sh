#!/usr/bin/env bash
# start.sh DIR IP [SYNC]: starts one Cassandra node (installing it first) and returns when CQL answers on IP:9042.
#   DIR   its data, configuration and log; DIR/pid holds the process id
#   SYNC  commitlog_sync: periodic (default) or batch
# HEAP (default 1G) and SEEDS (default IP) come from the environment. AUTH=1 turns on authentication, authorization, masks,
# views and functions, without caches of permissions; the superuser is cassandra, with the password cassandra.
"$(dirname "$0")/install.sh"
. "$(dirname "$0")/../lib.sh"
[ $# -ge 2 ] || { echo "usage: start.sh DIR IP [periodic|batch]" >&2; exit 2; }
mkdir -p "$1/conf"
dir=$(cd "$1" && pwd) ip=$2 sync=${3:-periodic} heap=${HEAP:-1G}
if [ -f "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; then echo "already running, pid $(cat "$dir/pid")"; exit 0; fi

case $sync in
  periodic) commitlog=$'commitlog_sync: periodic\ncommitlog_sync_period: 10000ms' ;;
  batch) commitlog='commitlog_sync: batch' ;;
  *) echo "start.sh: commitlog_sync $sync is not periodic or batch" >&2; exit 2 ;;
esac

security='authenticator: AllowAllAuthenticator
authorizer: AllowAllAuthorizer'
[ "${AUTH:-0}" = 0 ] || security='authenticator: PasswordAuthenticator
authorizer: CassandraAuthorizer
role_manager: CassandraRoleManager
network_authorizer: CassandraNetworkAuthorizer
cidr_authorizer:
  class_name: CassandraCIDRAuthorizer
permissions_validity: 0ms
roles_validity: 0ms
dynamic_data_masking_enabled: true
materialized_views_enabled: true
sasi_indexes_enabled: true
user_defined_functions_enabled: true'

cat > "$dir/conf/cassandra.yaml" <<YAML
cluster_name: ${CLUSTER_NAME:-Test Cluster}
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 16
allocate_tokens_for_local_replication_factor: 3
endpoint_snitch: SimpleSnitch
listen_address: $ip
rpc_address: $ip
start_native_transport: true
native_transport_port: 9042
storage_port: 7000
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "${SEEDS:-$ip}"
$security
data_file_directories: [ "$dir/data" ]
commitlog_directory: "$dir/commitlog"
saved_caches_directory: "$dir/saved_caches"
hints_directory: "$dir/hints"
cdc_raw_directory: "$dir/cdc_raw"
$commitlog
commitlog_segment_size: 32MiB
disk_failure_policy: stop
commit_failure_policy: stop
auto_snapshot: false
read_request_timeout: 5000ms
range_request_timeout: 10000ms
write_request_timeout: 2000ms
truncate_request_timeout: 60000ms
batch_size_warn_threshold: 5KiB
batch_size_fail_threshold: 50KiB
YAML
cat > "$dir/conf/logback.xml" <<XML
<configuration>
  <appender name="FILE" class="ch.qos.logback.core.FileAppender">
    <file>$dir/system.log</file>
    <encoder><pattern>%-5level [%thread] %date{ISO8601} %logger{0} - %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="FILE"/></root>
</configuration>
XML

# A node that joins a ring waits that long for the others to tell it who they are.
delay=0; [ "${SEEDS:-$ip}" = "$ip" ] || delay=5000
IFS=. read -r _ _ c d <<< "$ip"
classpath=$dir/conf:$(printf '%s:' "$tools"/oracle/lib/*.jar)
mkdir -p "$dir/triggers"
setsid nohup java -Xms"$heap" -Xmx"$heap" $(tr '\n' ' ' < "$root/tools/oracle/jvm.options") \
  -javaagent:"$(echo "$tools"/oracle/lib/jamm-*.jar)" \
  -Dcassandra.config="file://$dir/conf/cassandra.yaml" -Dcassandra.storagedir="$dir" -Dcassandra.triggers_dir="$dir/triggers" \
  -Dlogback.configurationFile="$dir/conf/logback.xml" \
  -Dcassandra.jmx.local.port=$((17000 + c * 256 + d)) -Djava.rmi.server.hostname=127.0.0.1 \
  -Dcassandra.skip_wait_for_gossip_to_settle=0 -Dcassandra.ring_delay_ms=$delay \
  -Dcassandra.consistent.rangemovement=false -Dcassandra-foreground=yes \
  -cp "$classpath" org.apache.cassandra.service.CassandraDaemon > "$dir/out.log" 2>&1 < /dev/null &
pid=$!
echo $pid > "$dir/pid"

# An OPTIONS request (nine bytes) is answered as soon as the native transport serves.
answers() {
  exec 3<>"/dev/tcp/$ip/9042" || return 1
  printf '\x04\x00\x00\x00\x05\x00\x00\x00\x00' >&3
  [ "$(head -c 1 <&3 | od -An -tx1 | tr -d ' ')" = 84 ]
}
for _ in $(seq 900); do
  if (answers) 2>/dev/null; then echo "Cassandra answers on $ip:9042, pid $pid, commitlog_sync $sync"; exit 0; fi
  kill -0 $pid 2>/dev/null || { echo "start.sh: Cassandra ended; last lines of $dir/out.log:" >&2; tail -20 "$dir/out.log" >&2; exit 1; }
  sleep 0.2
done
echo "start.sh: no answer from Cassandra within three minutes, see $dir/system.log" >&2
exit 1
