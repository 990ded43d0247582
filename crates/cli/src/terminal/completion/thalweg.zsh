#compdef thalweg
# zsh completion for thalweg: source it after compinit, or save it as _thalweg in a directory of $fpath
_thalweg() {
    local -a plain plain_shown open open_shown
    local line value shown
    for line in "${(@f)$(COMPLETE=zsh _THALWEG_INDEX=$((CURRENT - 1)) thalweg -- "${(@Q)words}" 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        [[ -n $value ]] || continue
        shown=$value
        [[ $line == *$'\t'* ]] && shown="$value  -- ${line#*$'\t'}"
        if [[ $value == *[=/:] ]]; then
            open+=("$value") open_shown+=("$shown")
        else
            plain+=("$value") plain_shown+=("$shown")
        fi
    done
    (( ${#open} + ${#plain} )) || { _default; return; }
    (( ${#open} )) && compadd -S '' -l -d open_shown -a open
    (( ${#plain} )) && compadd -l -d plain_shown -a plain
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _thalweg "$@"
else
    compdef _thalweg thalweg
fi
