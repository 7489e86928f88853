# What `cmake --install` puts where, in four components: router, worker, tools, common. The manual pages are what the
# programs built here say of themselves (tools/manual), so a build that cannot run them has none.
include(GNUInstallDirs)

set(TANDEM_BIN ${CMAKE_INSTALL_FULL_BINDIR})
set(TANDEM_ETC ${CMAKE_INSTALL_FULL_SYSCONFDIR}/tandem)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(TANDEM_ETC /etc/tandem)
  set(units /lib/systemd/system) # where Debian 12 has them
  set(systemd_lib /usr/lib)
else()
  set(units ${CMAKE_INSTALL_LIBDIR}/systemd/system)
  set(systemd_lib ${CMAKE_INSTALL_LIBDIR})
endif()

foreach(name router worker)
  install(TARGETS tandem-${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${name})
endforeach()
install(TARGETS tandem tandem-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)

# Waits between two tries of a start that grow, where the systemd of the machine that builds knows them (254 and later).
set(TANDEM_RESTART_DELAYS "RestartSec=5")
find_program(SYSTEMCTL systemctl)
if(SYSTEMCTL)
  execute_process(COMMAND ${SYSTEMCTL} --version OUTPUT_VARIABLE systemd_version ERROR_QUIET)
  if(systemd_version MATCHES "^systemd ([0-9]+)" AND CMAKE_MATCH_1 GREATER_EQUAL 254)
    set(TANDEM_RESTART_DELAYS "RestartSec=2\nRestartSteps=4\nRestartMaxDelaySec=20")
  endif()
endif()
mark_as_advanced(SYSTEMCTL)

foreach(unit tandem-router.service tandem-worker@.service)
  configure_file(deploy/systemd/${unit}.in ${CMAKE_BINARY_DIR}/deploy/${unit} @ONLY)
endforeach()
install(FILES ${CMAKE_BINARY_DIR}/deploy/tandem-router.service deploy/systemd/tandem-router.socket
  DESTINATION ${units} COMPONENT router)
install(FILES ${CMAKE_BINARY_DIR}/deploy/tandem-worker@.service deploy/systemd/tandem-workers.slice
  DESTINATION ${units} COMPONENT worker)
install(FILES deploy/systemd/tandem.target DESTINATION ${units} COMPONENT common)
install(FILES deploy/systemd/tandem.sysusers DESTINATION ${systemd_lib}/sysusers.d RENAME tandem.conf COMPONENT common)
install(FILES deploy/systemd/tandem.tmpfiles DESTINATION ${systemd_lib}/tmpfiles.d RENAME tandem.conf COMPONENT common)
install(FILES deploy/tandem.ini DESTINATION ${TANDEM_ETC} COMPONENT common)
# What operators read and start from: the guides, and examples for dashboards, proxies and schedulers.
set(shared_docs ${CMAKE_INSTALL_DATADIR}/doc/tandem-common)
install(FILES README.md docs/bench.md docs/clients.md docs/grpc-api.md docs/http-api.md docs/models.md docs/operations.md
  DESTINATION ${shared_docs} COMPONENT common)
install(DIRECTORY deploy/grafana deploy/kubernetes deploy/prometheus deploy/proxy deploy/slurm
  DESTINATION ${shared_docs}/examples COMPONENT common)

find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT CMAKE_CROSSCOMPILING AND NOT SANITIZE)
  set(manual ${CMAKE_BINARY_DIR}/manual)
  set(pages man1/tandem.1 man1/tandem-bench.1 man1/tandem-router.1 man1/tandem-worker.1 man5/tandem.ini.5)
  list(TRANSFORM pages PREPEND ${manual}/ OUTPUT_VARIABLE page_files)
  add_custom_command(OUTPUT ${page_files} ${manual}/bash-completion/tandem
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/manual ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${manual}
    DEPENDS tools/manual tandem tandem-bench tandem-router tandem-worker COMMENT "Manual pages and bash completion")
  add_custom_target(manual ALL DEPENDS ${page_files})
  install(FILES ${manual}/man1/tandem.1 ${manual}/man1/tandem-bench.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
  install(FILES ${manual}/bash-completion/tandem DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tools)
  foreach(program tandem-bench tandem-router tandem-worker) # found by the name of the program that is completed
    install(CODE "file(CREATE_LINK tandem \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions/${program}\" SYMBOLIC)"
      COMPONENT tools)
  endforeach()
  foreach(name router worker)
    install(FILES ${manual}/man1/tandem-${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${name})
  endforeach()
  install(FILES ${manual}/man5/tandem.ini.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT common)
endif()
