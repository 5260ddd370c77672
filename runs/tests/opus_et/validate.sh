#!/bin/bash
# A stand-in for a lab's validate.sh, with its oddities: the exit code is the number of errors modulo 256, a phase that it
# does not know is no error, each completion is said twice, and a phase may have several of them.
phase="" species="${SPECIES_CONF:-}"
while [ $# -gt 0 ]; do
  case $1 in
    --phase) phase=$2; shift ;;
    --species) species=$2; shift ;;
  esac
  shift
done
source "$PIPELINE_CONF"
[ -z "$species" ] || source "$species"
cd "$WORK_DIR" || exit 1
errors=0 warnings=0 rows=()
say() { rows+=("{\"status\":\"$1\",\"message\":\"$2\"$3}"); }
count() {  # words, what each tilt series must have, with TS_XXX in it
  local done=0 total=0 path
  for path in tomostar/*.tomostar; do
    name=$(basename "$path" .tomostar)
    total=$((total + 1))
    compgen -G "${2//TS_XXX/$name}" > /dev/null && done=$((done + 1))
  done
  local words="$1: $done/$total" twin=pass
  [ "$done" -ge "$total" ] || { twin=warn; warnings=$((warnings + 1)); }
  say phase_completion "$words" ",\"phase\":\"$phase\",\"done\":$done,\"total\":$total"
  say "$twin" "$words" ""
}
case $phase in
  2) if [ -s warp_tiltseries.settings ]; then say pass "settings" ""; else say fail "no settings" ""; errors=$((errors + 1)); fi ;;
  3b) count "aligned stacks" "tiltstack/TS_XXX/TS_XXX_ali.mrc"; count "angles" "tiltstack/TS_XXX/TS_XXX.tlt" ;;
  6g) count "lists of picks" "template_matching/$TM_LABEL/warp_star/TS_XXX_warp.star" ;;
  8c) [ -n "${FIXED_SUBSET_LABEL:-}" ] && say info "half $FIXED_SUBSET_LABEL" "" ;;
  noise) echo "conda: command not found"; exit 3 ;;
esac
checks=$(IFS=,; echo "${rows[*]}")
echo "{\"phase\":\"$phase\",\"errors\":$errors,\"warnings\":$warnings,\"checks\":[$checks]}"
exit $((errors % 256))
